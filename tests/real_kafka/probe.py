"""What a running cluster answers about itself, written down for captures whose truth must be known later.

In: a cluster at rest. Out: the parts of GROUND_TRUTH.json that brokers tell: topics, offsets, sizes, producers, epochs,
groups. Only a partition's leader is asked, and nothing is computed here.
"""

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.leader_requests import new_admin
from tests.real_kafka.wire import Connection, PartitionState

Truth = dict[str, Any]
QUORUM_TOOL: Final = "org.apache.kafka.tools.MetadataQuorumCommand"


def ground_truth(cluster: KafkaCluster) -> Truth:
    """Asks everything of the brokers that run; `log_dirs` are told as `told_path` does."""
    admin = cluster.admin()
    names = sorted(admin.list_topics(timeout=30).topics)
    described = admin.describe_topics(TopicCollection(names))
    topics = {name: described[name].result(timeout=30) for name in names}
    with ExitStack() as stack:
        brokers = {
            i: stack.enter_context(Connection(cluster.address(i))) for i in cluster.broker_ids if cluster.is_running(i)
        }
        states = {name: partition_states(cluster, next(iter(brokers.values())), name) for name in names}
        led = {(name, p.partition): p.leader for name in names for p in states[name] if p.leader in brokers}
        producers = {
            f"{topic}-{number}": [
                {
                    "pid": producer.producer_id,
                    "epoch": producer.producer_epoch,
                    "last_seq": producer.last_sequence,
                    "last_ts": producer.last_timestamp,
                    **_unless_missing("coordinator_epoch", producer.coordinator_epoch),
                    **_unless_missing("txn_start", producer.current_transaction_first_offset),
                }
                for producer in brokers[leader].active_producers(topic, number)
            ]
            for (topic, number), leader in led.items()
        }
        epochs = {
            f"{topic}-{number}": _epoch_answers(brokers[leader], topic, number)
            for (topic, number), leader in led.items()
        }
        log_dirs = {str(i): _log_dirs(cluster, i, connection) for i, connection in brokers.items()}
    return {
        "cluster_id": cluster.cluster_id,
        "probe_at_capture": {
            "wallclock_ms": time.time_ns() // 1_000_000,
            "cluster_id": cluster.cluster_id,
            "topics": {
                name: {
                    "topic_id": _kafka_text(str(topic.topic_id)),
                    "internal": topic.is_internal,
                    "partitions": [_state(state) for state in states[name]],
                }
                for name, topic in topics.items()
            },
            "list_offsets": {
                "earliest": _offsets(cluster, list(led), OffsetSpec.earliest()),
                "latest": _offsets(cluster, list(led), OffsetSpec.latest()),
                "latest_read_committed": _offsets(
                    cluster, list(led), OffsetSpec.latest(), IsolationLevel.READ_COMMITTED
                ),
            },
            "log_dirs": log_dirs,
            "describe_producers_leader": {name: found for name, found in producers.items() if found},
            **({"metadata_quorum": ask_quorum(cluster)} if cluster.has_quorum else {}),
        },
        "leader_epoch_answers": epochs,
        "groups": _groups(cluster),
    }


def partition_states(cluster: KafkaCluster, broker: Connection, topic: str) -> list[PartitionState]:
    """Every partition of a topic, as one of the brokers tells them."""
    return broker.partition_states(topic) if cluster.has_quorum else broker.partition_states_by_zookeeper(topic)


def told_path(cluster: KafkaCluster, node_id: int, directory: Path) -> str:
    """A node's directory as if the node had a machine of its own."""
    below = directory.relative_to(cluster.root(node_id)).as_posix()
    return f"/var/lib/kafka/broker-{node_id}" + ("" if below == "." else f"/{below}")


def _state(state: PartitionState) -> Truth:
    return {
        "partition": state.partition,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "replicas": state.replicas,
        "isr": state.isr,
        "elr": state.elr,
        "last_known_elr": state.last_known_elr,
        "offline": state.offline,
    }


def ask_quorum(cluster: KafkaCluster) -> Truth:
    """Who votes, who only listens, who leads (kafka-metadata-quorum.sh describe --status)."""
    said = cluster.tool(QUORUM_TOOL, "--bootstrap-server", cluster.bootstrap, "describe", "--status")
    fields = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
    return {
        "leader": int(fields["LeaderId"]),
        "leader_epoch": int(fields["LeaderEpoch"]),
        "voters": sorted(voter["id"] for voter in json.loads(fields["CurrentVoters"])),
        "observers": sorted(observer["id"] for observer in json.loads(fields["CurrentObservers"])),
    }


def _kafka_text(topic_id: str) -> str:
    """As Kafka's Uuid writes it; the client library uses the other alphabet of base 64, and pads."""
    return topic_id.rstrip("=").translate(str.maketrans("+/", "-_"))


def _unless_missing(name: str, value: int) -> dict[str, int]:
    return {} if value == -1 else {name: value}


def _offsets(
    cluster: KafkaCluster,
    partitions: list[tuple[str, int]],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> Truth:
    admin = new_admin(cluster.bootstrap)
    asked = admin.list_offsets({TopicPartition(t, p): spec for t, p in partitions}, isolation_level=isolation)
    return {f"{at.topic}-{at.partition}": {"offset": found.result(timeout=30).offset} for at, found in asked.items()}


def _epoch_answers(leader: Connection, topic: str, partition: int) -> list[Truth]:
    """What the leader says of every epoch from 0 until it knows no newer one."""
    answers: list[Truth] = []
    for asked in range(64):
        error, epoch, end_offset = leader.epoch_end(topic, partition, asked)
        if (epoch, end_offset) == (-1, -1):
            break
        answers.append({"requested_epoch": asked, "error": error, "leader_epoch": epoch, "end_offset": end_offset})
    return answers


def _log_dirs(cluster: KafkaCluster, broker_id: int, connection: Connection) -> Truth:
    names = {str(path): told_path(cluster, broker_id, path) for path in cluster.log_dirs(broker_id)}
    found: Truth = {}
    for replica in connection.replica_sizes():
        of_dir = found.setdefault(names[replica.log_dir], {"replicas": {}})
        of_dir["replicas"][f"{replica.topic}-{replica.partition}"] = {
            "size": replica.size_bytes,
            "offset_lag": replica.offset_lag,
            "future": replica.is_future,
        }
    return found


def _groups(cluster: KafkaCluster) -> Truth:
    # A client that knew a coordinator which died since asks it for ever (librdkafka 2.16.1).
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    groups: Truth = {}
    for listed in admin.list_consumer_groups(request_timeout=30).result().valid:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(listed.group_id)])
        offsets = asked[listed.group_id].result(timeout=30).topic_partitions
        groups[listed.group_id] = {f"{o.topic}-{o.partition}": {"offset": o.offset} for o in offsets}
    return groups
