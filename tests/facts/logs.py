"""Logs for tests as batch headers: what a scan would give of a segment, without the bytes."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegauge.facts.context import (
    Assignment,
    ClusterCopy,
    CoordinatorKnowledge,
    MetadataLogCopy,
    PartitionContext,
    PartitionHistory,
    PartitionSettings,
)
from tidegauge.facts.metadata.expiration import Expiration
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.facts.replicas.replica import ReplicaFacts, replica_facts
from tidegauge.facts.replicas.replica_input import (
    CheckpointedOffsets,
    CopiedKinds,
    CopyMoment,
    IndexedSegment,
    ReplicaInput,
    ReplicaPlace,
)
from tidegauge.facts.segments.fold import SummaryFold
from tidegauge.facts.segments.summary import SegmentSummary
from tidegauge.kafka_log.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from tidegauge.kafka_log.checkpoints import EpochEntry, LeaderEpochCheckpoint
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.scan import BATCH_HEADER

ABORT, COMMIT = 0, 1
EXPIRATION_MS = 86_400_000
EXPIRATION = Expiration(milliseconds=EXPIRATION_MS)


def summarise(blocks: Iterable[NDArray[Any]], *, ignore_sequences: bool = False) -> SegmentSummary:
    """Blocks of batch headers folded into one summary."""
    fold = SummaryFold(ignore_sequences=ignore_sequences)
    for headers in blocks:
        fold.add(headers)
    return fold.summary()


def batch(
    base_offset: int,
    records: int = 1,
    *,
    epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int | None = None,
    sequence: int = -1,
    transactional: bool = False,
    timestamp: int = 1_000,
    size_bytes: int = 100,
    **fields: int,
) -> NDArray[Any]:
    """Header of one data batch."""
    row = np.zeros(1, dtype=BATCH_HEADER)
    row["base_offset"] = base_offset
    row["last_offset"] = base_offset + max(records, 1) - 1
    row["record_count"] = records
    row["partition_leader_epoch"] = epoch
    row["magic"] = 2
    row["crc"] = base_offset & 0xFFFFFFFF
    row["crc_valid"] = 1
    row["size_bytes"] = size_bytes
    row["attributes"] = TRANSACTIONAL_BIT if transactional else 0
    row["base_timestamp"] = row["max_timestamp"] = timestamp
    row["producer_id"] = producer_id
    row["producer_epoch"] = producer_epoch if producer_epoch is not None else (0 if producer_id >= 0 else -1)
    row["base_sequence"] = sequence
    row["control_type"] = -1
    row["coordinator_epoch"] = -1
    row["control_records_ok"] = 1
    for name, value in fields.items():
        row[name] = value
    return row


def marker(
    offset: int,
    *,
    producer_id: int,
    producer_epoch: int = 0,
    kind: int = COMMIT,
    coordinator_epoch: int = 0,
    **fields: Any,
) -> NDArray[Any]:
    """Header of one end marker."""
    row = batch(offset, producer_id=producer_id, producer_epoch=producer_epoch, size_bytes=78, **fields)
    row["attributes"] = TRANSACTIONAL_BIT | CONTROL_BIT
    row["control_type"] = kind
    row["coordinator_epoch"] = coordinator_epoch
    return row


def headers(*rows: NDArray[Any], position: int = 0) -> NDArray[Any]:
    """Batches one behind the other, as a segment holds them."""
    joined = np.concatenate([*rows]) if rows else np.zeros(0, dtype=BATCH_HEADER)
    ends = position + np.cumsum(joined["size_bytes"])
    joined["position"] = ends - joined["size_bytes"]
    return joined


def checkpoint(*entries: tuple[int, int]) -> LeaderEpochCheckpoint:
    """A leader-epoch-checkpoint file of (epoch, start offset)."""
    return LeaderEpochCheckpoint(
        empty=not entries,
        declared_entries=len(entries),
        entries=tuple(EpochEntry(leader_epoch=e, start_offset=o) for e, o in entries),
        corruptions=(),
    )


def segment(
    rows: NDArray[Any], *, base_offset: int = 0, corruptions: Sequence[Corruption] = (), **fields: Any
) -> IndexedSegment:
    """A segment as the index step hands it on."""
    size = int(rows["size_bytes"].sum())
    return IndexedSegment(
        **{
            "path": f"broker-1/t-0/{base_offset:020d}.log",
            "stored_path": f"broker-1/t-0/{base_offset:020d}.log",
            "base_offset": base_offset,
            "size_bytes": size,
            "valid_bytes": size,
            "valid_end_offset": int(rows[-1]["last_offset"]) + 1 if len(rows) else None,
            "corruptions": tuple(corruptions),
            "ranges": ((base_offset, summarise([rows])),),
            "indexes": (),
            "bytes_read": size,
            **fields,
        }
    )


def replica_input(*segments: IndexedSegment, broker_id: int = 1, **fields: Any) -> ReplicaInput:
    """A replica of t-0. `fields`: those of `ReplicaInput` and of what it is composed of, each by its own name."""
    return ReplicaInput(
        place=_taken(
            ReplicaPlace,
            fields,
            broker_id=broker_id,
            log_dir=".",
            directory=f"broker-{broker_id}/t-0",
            topic="t",
            partition=0,
        ),
        checkpointed=_taken(CheckpointedOffsets, fields),
        moment=_taken(CopyMoment, fields, clean_shutdown=False, broker_quiet=True),
        copied=_taken(CopiedKinds, fields),
        **{
            "segments": segments,
            "snapshots": (),
            "transaction_indexes": {},
            "epoch_checkpoint": None,
            "partition_metadata": None,
            **fields,
        },
    )


def replica(*rows: NDArray[Any], broker_id: int = 1, compacted: bool = False, **fields: Any) -> ReplicaFacts:
    """The facts of a replica of one segment."""
    whole = headers(*rows)
    base = int(whole[0]["base_offset"]) if len(whole) else 0
    return replica_facts(
        replica_input(segment(whole, base_offset=base), broker_id=broker_id, **fields),
        topic_compacted=compacted,
        tiered=False,
        expiration=EXPIRATION,
    )


class Disks:
    """What `ReadBatches` reads: each broker's batches."""

    def __init__(self, **rows: NDArray[Any]) -> None:
        self._rows = {int(name.removeprefix("broker_")): value for name, value in rows.items()}
        self.reads = 0

    def __call__(self, replica: ReplicaFacts, start: int, end: int) -> NDArray[Any]:
        self.reads += 1
        rows = self._rows[replica.broker_id]
        return rows[(rows["last_offset"] >= start) & (rows["base_offset"] < end)]


def context(**fields: Any) -> PartitionContext:
    """A partition t-0 of brokers 1, 2, 3, led by broker 1 in epoch 0.

    `fields`: those of `PartitionContext` and of what it is composed of, each by its own name.
    """
    return PartitionContext(
        assignment=_taken(
            Assignment,
            fields,
            known=True,
            leader_id=1,
            leader_epoch=0,
            partition_epoch=0,
            replicas=(1, 2, 3),
            isr=(1, 2, 3),
        ),
        history=_taken(PartitionHistory, fields, topic_ids_deleted={"t" * 22: False}, epoch_leaders={0: 1}),
        metadata=_taken(MetadataLogCopy, fields),
        settings=_taken(
            PartitionSettings,
            fields,
            min_insync_replicas=1,
            cleanup_policy="delete",
            unclean_leader_election_enable=False,
            producer_expiration=EXPIRATION,
            max_transaction_timeout_ms=900_000,
        ),
        cluster=_taken(
            ClusterCopy, fields, alive_brokers=frozenset({1, 2, 3}), snapshot_quiet=True, captured_at_ms=10_000_000
        ),
        coordinators=_taken(CoordinatorKnowledge, fields, transaction_states_known=True),
        **{"topic": "t", "partition": 0, "topic_id": "t" * 22, **fields},
    )


def _taken(kind: type, fields: dict[str, Any], **otherwise: Any) -> Any:
    """A value of a class, with those of `fields` that are its own."""
    return kind(**otherwise | {f.name: fields.pop(f.name) for f in dataclasses.fields(kind) if f.name in fields})


def change(**fields: Any) -> PartitionChange:
    """A metadata record about t-0."""
    return PartitionChange(
        **{
            "metadata_offset": 100,
            "sequence_in_log": 0,
            "from_snapshot": False,
            "at_ms": 5_000,
            "leader_id": 1,
            "previous_leader_id": None,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "replicas": (1, 2, 3),
            "isr": (1, 2, 3),
            "previous_isr": (),
            "elr": (),
            "previous_elr": (),
            "last_known_elr": (),
            "adding_replicas": (),
            "removing_replicas": (),
            "recovering": False,
            "election": "none",
            **fields,
        }
    )
