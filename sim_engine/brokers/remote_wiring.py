"""Where a broker's work on the remote tier is plugged into the engine.

In: nothing. Out: handlers by action, message and timer, which `sim_engine.engine` takes over. What comes back to a
broker in answer to a client's request is about the tier, for brokers make none for another reason.
"""

from collections.abc import Callable
from typing import Any, Final

from tidegauge.sim_engine.actions import RemoteMoved, RemoteRetry, Timer
from tidegauge.sim_engine.brokers import leader_role, remote_log_manager, remote_metadata_topic
from tidegauge.sim_engine.messages import ConsumeResponse, InitProducerIdResponse, ProduceResponse
from tidegauge.sim_engine.turn import Turn

ACTIONS: Final[dict[type, Callable[[Turn, Any], None]]] = {
    RemoteMoved: remote_log_manager.store_answered,
    RemoteRetry: remote_metadata_topic.retry,
}

BROKER_REQUESTS: Final[dict[type, Callable[[Turn, int, str, Any], None]]] = {
    ConsumeResponse: remote_metadata_topic.read_answered,
    ProduceResponse: remote_metadata_topic.write_answered,
    InitProducerIdResponse: remote_metadata_topic.id_answered,
}

TIMERS: Final[dict[Timer, Callable[[Turn, int], int]]] = {Timer.REMOTE: remote_log_manager.tick}

remote_metadata_topic.CAUGHT_UP.append(remote_log_manager.caught_up)
leader_role.LEADERSHIP_LISTENERS.append(remote_log_manager.leadership_changed)
