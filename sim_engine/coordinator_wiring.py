"""Where transactions and groups are plugged into the engine.

In: nothing. Out: tables for `sim_engine.engine`, and the listeners of leaders. Every action of `coordinator_actions`
and every message of `coordinator_messages` has its handler here.
"""

from collections.abc import Callable
from typing import Any, Final

from tidegauge.sim_engine import messages
from tidegauge.sim_engine.actions import ClientTick, Timer
from tidegauge.sim_engine.brokers import leader_role, metadata_copy
from tidegauge.sim_engine.clients import group_consumer, share_calls, transactional_client
from tidegauge.sim_engine.coordinators import coordinator_actions, coordinator_messages
from tidegauge.sim_engine.faults import transaction_faults
from tidegauge.sim_engine.hosting import hosting
from tidegauge.sim_engine.turn import Turn

ACTIONS: Final[dict[type, Callable[[Turn, Any], None]]] = {
    coordinator_actions.StartTransactionalProducer: transactional_client.start,
    coordinator_actions.BeginTransaction: transactional_client.begin,
    coordinator_actions.SendInTransaction: transactional_client.send,
    coordinator_actions.SendOffsetsInTransaction: transactional_client.send_offsets,
    coordinator_actions.EndTransaction: transactional_client.end,
    coordinator_actions.StartGroupConsumer: group_consumer.start,
    coordinator_actions.LeaveGroup: group_consumer.leave,
    coordinator_actions.RecordShareState: share_calls.record,
    coordinator_actions.LoseMarkers: transaction_faults.lose_markers,
    coordinator_actions.DoubleMarker: transaction_faults.double_marker,
    coordinator_actions.WriteUnverified: transaction_faults.write_unverified,
}

BROKER_REQUESTS: Final[dict[type, Callable[[Turn, int, str, Any], None]]] = {
    messages.ProduceRequest: hosting.produce,
    coordinator_messages.InitTransactionsRequest: hosting.transaction_request,
    coordinator_messages.AddPartitionsRequest: hosting.transaction_request,
    coordinator_messages.EndTransactionRequest: hosting.transaction_request,
    coordinator_messages.TransactionAnswer: hosting.transaction_answer,
    coordinator_messages.MarkersRequest: hosting.markers_request,
    coordinator_messages.MarkersResponse: hosting.markers_response,
    coordinator_messages.CommitRequest: hosting.group_request,
    coordinator_messages.OffsetFetchRequest: hosting.group_request,
    coordinator_messages.JoinRequest: hosting.group_request,
    coordinator_messages.SyncRequest: hosting.group_request,
    coordinator_messages.GroupHeartbeatRequest: hosting.group_request,
    coordinator_messages.ConsumerHeartbeatRequest: hosting.group_request,
    coordinator_messages.DeleteGroupRequest: hosting.group_request,
}

CLIENT_ANSWERS: Final[dict[type, dict[type, Callable[[Turn, str, Any], None]]]] = {
    transactional_client.TransactionalClient: dict.fromkeys(
        (
            messages.ClientMetadataResponse,
            messages.ProduceResponse,
            coordinator_messages.TransactionAnswer,
            coordinator_messages.GroupAnswer,
        ),
        transactional_client.delivered,
    ),
    group_consumer.GroupConsumer: dict.fromkeys(
        (messages.ClientMetadataResponse, messages.ConsumeResponse, coordinator_messages.GroupAnswer),
        group_consumer.delivered,
    ),
}

CLIENT_TIMERS: Final[dict[type, Callable[[Turn, ClientTick], None]]] = {
    transactional_client.TransactionalClient: transactional_client.tick,
    group_consumer.GroupConsumer: group_consumer.tick,
}

TIMERS: Final[dict[Timer, Callable[[Turn, int], int]]] = {Timer.COORDINATORS: hosting.tick}

leader_role.LEADERSHIP_LISTENERS.append(hosting.leadership_changed)
leader_role.WRITTEN.append(hosting.written)
metadata_copy.TOPICS_GONE.append(hosting.topics_gone)
