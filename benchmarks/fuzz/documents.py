"""A manifest and a cluster's answers in which every field has a value, and what a capture's own cluster would answer.

In: nothing, or the facts of a capture. Out: JSON text, from which inputs are made.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots import cluster_answers, manifest
from tidegauge.snapshots.cluster_answers import (
    BrokerAnswer,
    CapturedAnswers,
    ClusterAnswers,
    CommittedAnswer,
    ConfigAnswer,
    GroupAnswer,
    PartitionAnswer,
    ProducerAnswer,
    TopicAnswer,
    TransactionAnswer,
)
from tidegauge.snapshots.manifest import (
    BrokerCapture,
    Consistency,
    FileEntry,
    LeftOut,
    LogDir,
    Manifest,
    Mode,
    Source,
)

_AT_MS: Final = 1_760_000_000_000


def _broker(number: int) -> BrokerCapture:
    return BrokerCapture(
        broker_id=number,
        directory=f"broker-{number}",
        rack="a" if number == 1 else None,
        log_dirs=(
            LogDir(name=".", directory_id="hW9RS1yTSKqrAmsF_m9tBg"),
            LogDir(name="d2", directory_id=None),
        ),
        read_started_at_ms=_AT_MS,
        read_finished_at_ms=_AT_MS + 900,
        files=(
            FileEntry(path=f"broker-{number}/meta.properties", size_bytes=90, read_at_ms=_AT_MS, sha256="00" * 32),
            FileEntry(
                path=f"broker-{number}/orders-0/00000000000000000000.headers",
                size_bytes=4711,
                read_at_ms=_AT_MS + 1,
                sha256="ff" * 32,
                modified_at_ns=_AT_MS * 1_000_000,
                source_size_bytes=1 << 30,
                changed_at_ns=_AT_MS * 1_000_000 + 1,
                read_again_at_ms=_AT_MS + 800,
            ),
        ),
    )


MANIFEST: Final = manifest.to_json(
    Manifest(
        cluster="prod",
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        snapshot_id="20260101T000000Z",
        source=Source.CAPTURED,
        mode=Mode.HEADERS,
        consistency=Consistency.FUZZY,
        brokers=(_broker(1), _broker(2)),
        left_out=(LeftOut(path="broker-1/orders-0/x", reason="it vanished"),),
        answers=cluster_answers.ANSWERS_NAME,
        hashed_topics=True,
    )
)


_CONFIGS: Final = {
    "cleanup.policy": ConfigAnswer(value="compact", source="topic"),
    "ssl.key.password": ConfigAnswer(value=None, source="static", sensitive=True),
}


def _round(at_ms: int) -> ClusterAnswers:
    producer = ProducerAnswer(
        producer_id=9,
        producer_epoch=1,
        last_sequence=41,
        last_timestamp_ms=at_ms,
        coordinator_epoch=3,
        current_transaction_first_offset=12,
    )
    partition = PartitionAnswer(
        partition=0,
        leader_id=1,
        leader_epoch=4,
        replicas=(1, 2),
        isr=(1,),
        log_start_offset=0,
        high_watermark=42,
        last_stable_offset=12,
        producers=(producer,),
        errors={"high_watermark": "NOT_LEADER_OR_FOLLOWER"},
    )
    return ClusterAnswers(
        started_at_ms=at_ms,
        finished_at_ms=at_ms + 90,
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        controller_id=1,
        brokers=(BrokerAnswer(broker_id=1, host="h", port=9092, rack="a", configs=_CONFIGS, errors={"configs": "no"}),),
        topics=(
            TopicAnswer(topic="orders", topic_id="A" * 21 + "Q", partitions=(partition,), configs=_CONFIGS),
            TopicAnswer(topic="plain", topic_id=None, partitions=(), configs=None, errors={"configs": "orders: no"}),
        ),
        groups=(
            GroupAnswer(
                group="g",
                type="consumer",
                state="Stable",
                members=1,
                offsets=(CommittedAnswer(topic="orders", partition=0, offset=40, leader_epoch=4, metadata="m"),),
                offsets_partition=7,
            ),
            GroupAnswer(group="s", type="share", state=None, members=None, offsets=None, errors={"g": "timed out"}),
        ),
        transactions=(
            TransactionAnswer(
                transactional_id="tx",
                state="Ongoing",
                producer_id=9,
                producer_epoch=1,
                timeout_ms=60_000,
                started_at_ms=at_ms,
                partitions=(TopicPartition("orders", 0),),
                state_partition=2,
            ),
        ),
        asked_at_ms={"topics": at_ms, "groups": at_ms + 1},
        unanswered={"transactions": "orders: TRANSACTIONAL_ID_AUTHORIZATION_FAILED"},
    )


ANSWERS: Final = cluster_answers.to_json(CapturedAnswers(before=_round(_AT_MS), after=_round(_AT_MS + 1_000)))


def answers_of(tables: Mapping[str, Any]) -> str:
    """What the cluster would have answered that has these facts, as far as they tell: JSON."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for row in tables["partitions"].to_pylist():
        topics.setdefault(row["topic"], []).append(row)
    told = replace(
        _round(_AT_MS),
        brokers=tuple(
            BrokerAnswer(broker_id=row["broker_id"], host="h", port=9092, rack=None, configs=_CONFIGS)
            for row in tables["brokers"].to_pylist()
        ),
        topics=tuple(
            TopicAnswer(
                topic=topic,
                topic_id=rows[0]["topic_id"],
                partitions=tuple(_partition_answer(row) for row in rows),
                configs=_CONFIGS,
            )
            for topic, rows in topics.items()
        ),
    )
    return cluster_answers.to_json(CapturedAnswers(before=told, after=replace(told, started_at_ms=_AT_MS + 1_000)))


def _partition_answer(row: Mapping[str, Any]) -> PartitionAnswer:
    return PartitionAnswer(
        partition=row["partition"],
        leader_id=row["leader_id"],
        leader_epoch=row["leader_epoch"],
        replicas=tuple(row["replicas"] or ()),
        isr=tuple(row["isr"] or ()),
        log_start_offset=row["log_start_offset"],
        high_watermark=row["high_watermark_upper"],
        last_stable_offset=row["last_stable_offset"],
        producers=(),
    )
