"""What a running cluster answers about itself, written down for captures whose truth must be known later.

In: a cluster at rest. Out: the parts of GROUND_TRUTH.json that brokers tell: topics, offsets, sizes, producers, epochs,
groups. The rule that must hold: only a partition's leader is asked, and nothing is computed here.
"""

import time
from contextlib import ExitStack
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.wire import Connection

Truth = dict[str, Any]


def ground_truth(cluster: KafkaCluster) -> Truth:
    """Asks everything; `log_dirs` are told as `/var/lib/kafka/broker-<id>`, as a broker of its own machine would."""
    admin = cluster.admin()
    names = sorted(admin.list_topics(timeout=30).topics)
    described = admin.describe_topics(TopicCollection(names))
    topics = {name: described[name].result(timeout=30) for name in names}
    partitions = {(name, p.id): p for name, topic in topics.items() for p in topic.partitions}
    with ExitStack() as stack:
        brokers = {i: stack.enter_context(Connection(cluster.address(i))) for i in cluster.broker_ids}
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
                for producer in brokers[p.leader.id].active_producers(topic, number)
            ]
            for (topic, number), p in partitions.items()
        }
        epochs = {
            f"{topic}-{number}": _epoch_answers(brokers[p.leader.id], topic, number)
            for (topic, number), p in partitions.items()
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
                    "partitions": [
                        {
                            "partition": p.id,
                            "leader": p.leader.id,
                            "replicas": [node.id for node in p.replicas],
                            "isr": [node.id for node in p.isr],
                        }
                        for p in topic.partitions
                    ],
                }
                for name, topic in topics.items()
            },
            "list_offsets": {
                "earliest": _offsets(cluster, list(partitions), OffsetSpec.earliest()),
                "latest": _offsets(cluster, list(partitions), OffsetSpec.latest()),
                "latest_read_committed": _offsets(
                    cluster, list(partitions), OffsetSpec.latest(), IsolationLevel.READ_COMMITTED
                ),
            },
            "log_dirs": log_dirs,
            "describe_producers_leader": {name: found for name, found in producers.items() if found},
        },
        "leader_epoch_answers": epochs,
        "groups": _groups(cluster),
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
    asked = cluster.admin().list_offsets({TopicPartition(t, p): spec for t, p in partitions}, isolation_level=isolation)
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
    names = {str(path): f"/var/lib/kafka/broker-{broker_id}" for path in cluster.log_dirs(broker_id)}
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
    admin = cluster.admin()
    groups: Truth = {}
    for listed in admin.list_consumer_groups(request_timeout=30).result().valid:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(listed.group_id)])
        offsets = asked[listed.group_id].result(timeout=30).topic_partitions
        groups[listed.group_id] = {f"{o.topic}-{o.partition}": {"offset": o.offset} for o in offsets}
    return groups
