"""Salvage: records that Kafka is about to truncate, or that a dead disk alone still holds, out of a snapshot.

In: a snapshot, a partition, a range of offsets, and the broker whose copy is wanted (by default the one that holds what
the partition's leader lacks, from the first such batch on). Out, in a new directory:

    records.jsonl            a record a line: offset, producer, sequence, key, value, how its transaction ended, and the
                             surviving record that is the same, if any
    <topic>-<partition>/     the same batches byte for byte, as segments under their first offsets, with the leader
                             epochs and the topic id: a broker and `kafka-dump-log.sh` read it
    salvage.json             what was taken from where (cluster, topic and their ids), and what could not be read

The rule that must hold: nothing is written into the snapshot, nothing is written over, and of each record it is said
whether producing it again would make it a second time.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from tidegauge.derivation.metadata.metadata_log import read_metadata
from tidegauge.kafka_log.allowance import Allowance
from tidegauge.kafka_log.batch import TRANSACTIONAL_BIT
from tidegauge.kafka_log.checkpoints import EpochEntry, write_leader_epoch_checkpoint
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.log_dir import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, is_headers_file
from tidegauge.kafka_log.properties import parse_partition_metadata
from tidegauge.kafka_log.records import RecordBatch, read_batch
from tidegauge.recovery.duplicates import Duplicate, Survivors, content_of, sequence_of, survivors_of
from tidegauge.recovery.replica_batches import Identity, Outcomes, ReplicaBatches, identity, is_control
from tidegauge.snapshots.adopt import Snapshot, open_snapshot
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.listing import listing
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.manifest import Manifest
from tidegauge.snapshots.places_above import check_within, made_safe
from tidegauge.snapshots.whole_files import write_whole

SCHEMA_VERSION: Final = 1
RECORDS: Final = "records.jsonl"
RESULT: Final = "salvage.json"
_UNREADABLE_NAMED: Final = 100
_SEGMENT_BYTES: Final = 1 << 30
_LARGEST_RELATIVE_OFFSET: Final = 0x7FFFFFFF

Copies = dict[int, ReplicaBatches]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where records were taken from. The ids are None where no file of the snapshot tells them."""

    cluster: str
    cluster_id: str | None
    snapshot_id: str
    topic: str
    topic_id: str | None
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """What was written: how many records, which of them survive elsewhere and how that is known, what is unreadable.

    `surviving_elsewhere` counts the records whose very batch another copy holds, one that is itself about to be cut
    included. `duplicates` counts, by how it is known, those that the surviving copies have; more of them may stand in
    batches of these copies whose records cannot be read, `survivors_unreadable`.
    """

    broker_id: int
    records: int
    surviving_elsewhere: int
    duplicates: dict[str, int]
    aborted: int
    start_offset: int | None
    end_offset: int | None
    origin: "Origin"
    survivors: tuple[int, ...]
    unreadable: tuple[str, ...]
    survivors_unreadable: tuple[str, ...]
    directory: Path

    @property
    def to_produce_again(self) -> int:
        """Records that are nowhere among the survivors, and that no abort took back."""
        return self.records - sum(self.duplicates.values()) - self.aborted


def salvage(
    directory: Location,
    *,
    topic: str,
    partition: int,
    out: Path,
    start: int | None = None,
    end: int | None = None,
    broker: int | None = None,
) -> Salvaged:
    """Writes the records of [start, end) of one replica into a new directory. Raises `SnapshotError`.

    Without `start` it begins with the first batch that no surviving copy holds.
    """
    if end is not None and end <= (start or 0):
        raise SnapshotError(
            f"From {start or 0} to {end} there is no offset: --to is the offset after the last one to save. Give one "
            "that is larger than --from."
        )
    check_within(out)
    snapshot = open_snapshot(directory)
    name = f"{topic}-{partition}"
    copies = _copies(snapshot, topic, partition)
    if not copies:
        raise SnapshotError(f"{directory} holds no replica of {name}. Check the name and the partition.")
    if any(is_headers_file(s.log.path) for c in copies.values() for s in c.replica.segments):
        raise SnapshotError(
            f"{directory} was captured with --mode headers: it holds no records of {name} that "
            "could be salvaged. Capture the replica's broker again with --mode full while it is still down."
        )
    if out.exists() and any(out.iterdir()):
        raise SnapshotError(f"{out} is not empty, and nothing is written over. Name a new directory with --out.")
    held = {b: copy.identities(start or 0, end) for b, copy in copies.items()}
    reference = _reference(snapshot, topic, partition, held)
    chosen = broker if broker is not None else _holder(held, reference, f"{name} in {directory}")
    if chosen not in copies:
        raise SnapshotError(f"{directory} holds no replica of {name} of broker {chosen}.")
    if start is not None or end is not None:
        _must_hold_something(copies[chosen], start or 0, end, f"{name} in {directory}")
    staying = _staying(held, reference, chosen)
    surviving: set[Identity] = set().union(*(held[b] for b in staying))
    if start is None:
        start = min((i[0] for i in held[chosen] - surviving), default=0)
    survivors = survivors_of([copies[b] for b in staying], start, held[chosen])
    elsewhere = set().union(*(ids for b, ids in held.items() if b != chosen))
    saved = _Writer(out=out, name=name, start=start, end=end, survivors=survivors, elsewhere=elsewhere)
    return saved.write(copies[chosen], _origin(snapshot.manifest, copies[chosen]), tuple(staying))


def _origin(manifest: Manifest, copy: ReplicaBatches) -> Origin:
    found = copy.replica.named(PARTITION_METADATA)
    return Origin(
        cluster=manifest.cluster,
        cluster_id=manifest.cluster_id,
        snapshot_id=manifest.snapshot_id,
        topic=copy.replica.topic,
        topic_id=parse_partition_metadata((copy.root / found.path).read_bytes()).topic_id if found else None,
        partition=copy.replica.partition,
    )


def _copies(snapshot: Snapshot, topic: str, partition: int) -> Copies:
    return {
        r.broker_id: ReplicaBatches(root=snapshot.root, replica=r)
        for r in listing(snapshot.manifest).replicas()
        if (r.topic, r.partition, r.state) == (topic, partition, "live")
    }


def _reference(snapshot: Snapshot, topic: str, partition: int, held: dict[int, set[Identity]]) -> int:
    """The copy whose lineage Kafka keeps: the leader's, else the last leader's, else that of the newest epoch."""
    found = read_metadata(snapshot.root, listing(snapshot.manifest), []).history.topic_named(topic)
    state = found.partitions.get(partition) if found is not None else None
    for leader in (state.leader_id, state.last_leader_id) if state is not None else ():
        if leader is not None and leader in held:
            return leader
    return max(held, key=lambda b: (max(((i[2], i[1]) for i in held[b]), default=(-1, -1)), -b))


def _holder(held: dict[int, set[Identity]], reference: int, what: str) -> int:
    """The broker that holds what the reference lacks; the reference itself if only it holds something.

    Where several lack each other's, the user has to say whose.
    """
    missing = {b: own - held[reference] for b, own in held.items() if own - held[reference]}
    if not missing:
        return reference
    largest = max(missing, key=lambda b: (len(missing[b]), -b))
    apart = sorted(b for b, own in missing.items() if own - missing[largest])
    if apart:
        raise SnapshotError(
            f"Brokers {', '.join(map(str, sorted([largest, *apart])))} each hold batches of {what} in that range that "
            "no other copy has. Say whose to take: --broker ID"
        )
    return largest


def _must_hold_something(copy: ReplicaBatches, start: int, end: int | None, what: str) -> None:
    """Raises `SnapshotError` for a range that the copy has nothing of: "0 records" would say that nothing is to be
    saved, and somebody starts a broker by that.
    """
    if any(True for _ in copy.headers(start, end)):
        return
    bounds = f"[{start}, {end})" if end is not None else f"{start} and above"
    there = [(int(rows["base_offset"].min()), int(rows["last_offset"].max())) for _, rows in copy.headers(0, None)]
    held = f"offsets {min(a for a, _ in there)}..{max(b for _, b in there)}" if there else "no batch at all"
    raise SnapshotError(
        f"Broker {copy.replica.broker_id}'s copy of {what} holds nothing of offsets {bounds}, so there is nothing to "
        f"save: it holds {held}. Check --from, --to and --broker."
    )


def _staying(held: dict[int, set[Identity]], reference: int, chosen: int) -> list[int]:
    """The copies that Kafka keeps as they are: the reference, and those that hold nothing beside it."""
    others = [b for b in held if b != chosen]
    if chosen == reference:
        return others
    return [reference, *(b for b in others if b != reference and not held[b] - held[reference])]


@dataclass(slots=True, kw_only=True)
class _Writer:
    """Writes the three parts while the batches pass by once."""

    out: Path
    name: str
    start: int
    end: int | None
    survivors: Survivors
    elsewhere: set[Identity]

    def write(self, copy: ReplicaBatches, origin: Origin, staying: tuple[int, ...]) -> Salvaged:
        target = self.out / self.name
        made_safe(self.out)
        target.mkdir()
        found: Counter[str] = Counter()
        epochs: dict[int, int] = {}
        offsets: list[int] = []
        unreadable = list(copy.damaged(self.start, self.end))
        outcomes, allowance = copy.outcomes(self.start), Allowance()
        with (self.out / RECORDS).open("x", encoding="utf-8") as lines, _Log(target) as log:
            for row, data in copy.batches(self.start, self.end):
                log.append(row, data)
                epochs.setdefault(int(row["partition_leader_epoch"]), int(row["base_offset"]))
                if is_control(row):
                    continue
                batch = read_batch(data, allowance=allowance)
                if isinstance(batch, Corruption):
                    unreadable.append(f"offsets {row['base_offset']}..{row['last_offset']}: {batch.detail}")
                    continue
                for line in self._lines(batch, row, outcomes):
                    lines.write(json.dumps(line) + "\n")
                    offsets = [offsets[0] if offsets else line["offset"], line["offset"]]
                    found["records"] += 1
                    found["elsewhere"] += line["survives_elsewhere"]
                    if line["duplicate_of"] is not None:
                        found[f"by {line['duplicate_of']['by']}"] += 1
                    elif line["outcome"] == "aborted":
                        found["aborted"] += 1
        self._small_files(copy, target, epochs)
        result = Salvaged(
            broker_id=copy.replica.broker_id,
            records=found["records"],
            surviving_elsewhere=found["elsewhere"],
            duplicates={by: found[f"by {by}"] for by in ("batch", "sequence", "content")},
            aborted=found["aborted"],
            start_offset=offsets[0] if offsets else None,
            end_offset=offsets[1] + 1 if offsets else None,
            origin=origin,
            survivors=tuple(sorted(staying)),
            unreadable=tuple(unreadable),
            survivors_unreadable=tuple(self.survivors.unreadable),
            directory=self.out,
        )
        told = {"schema_version": SCHEMA_VERSION, **asdict(result)} | {
            "directory": self.name,
            "to_produce_again": result.to_produce_again,
            "unreadable": result.unreadable[:_UNREADABLE_NAMED],
            "survivors_unreadable": result.survivors_unreadable[:_UNREADABLE_NAMED],
        }
        write_whole(self.out / RESULT, json.dumps(told, indent=1) + "\n")
        return result

    def _lines(self, batch: RecordBatch, row: np.void, outcomes: Outcomes) -> Iterator[dict[str, Any]]:
        own = identity(row)
        by_producer = batch.producer_id >= 0
        outcome = outcomes.of(row)
        for at, record in enumerate(batch.records):
            if record.offset < self.start or (self.end is not None and record.offset >= self.end):
                continue
            same = self.survivors.same_as(batch, at, own)
            yield {
                "offset": record.offset,
                "timestamp_ms": record.timestamp,
                "leader_epoch": batch.partition_leader_epoch,
                "producer_id": batch.producer_id if by_producer else None,
                "producer_epoch": batch.producer_epoch if by_producer else None,
                "sequence": sequence_of(batch, record)[2] if batch.base_sequence >= 0 else None,
                "transactional": bool(batch.attributes & TRANSACTIONAL_BIT),
                "outcome": outcome,
                "key": _text(record.key),
                "value": _text(record.value),
                "headers": [[name, _text(value)] for name, value in record.headers],
                "content_sha256": content_of(record).hex(),
                "survives_elsewhere": own in self.elsewhere,
                "duplicate_of": _told(same),
            }

    def _small_files(self, copy: ReplicaBatches, target: Path, epochs: dict[int, int]) -> None:
        """What a broker needs beside the batches: it builds everything else anew when it loads the log."""
        entries = _rising(EpochEntry(leader_epoch=e, start_offset=o) for e, o in epochs.items())
        write_whole(target / LEADER_EPOCH_CHECKPOINT, write_leader_epoch_checkpoint(entries))
        metadata = copy.replica.named(PARTITION_METADATA)
        if metadata is not None:
            write_whole(target / PARTITION_METADATA, (copy.root / metadata.path).read_bytes())


class _Log:
    """The segments of the salvaged log, named by their first batches; a new one where Kafka would roll."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._base_offset = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "_Log":
        return self

    def append(self, row: np.void, data: bytes) -> None:
        """One batch; they come in order."""
        full = self._file is not None and self._file.tell() + len(data) > _SEGMENT_BYTES
        if self._file is None or full or int(row["last_offset"]) - self._base_offset > _LARGEST_RELATIVE_OFFSET:
            self._close()
            self._base_offset = int(row["base_offset"])
            self._file = (self._target / f"{self._base_offset:020d}.log").open("xb")
        self._file.write(data)

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()


def _rising(entries: Iterable[EpochEntry]) -> list[EpochEntry]:
    """Epochs of a sound log rise with offsets; what does not would be dropped by the broker that loads it."""
    kept: list[EpochEntry] = []
    for entry in entries:
        if not kept or (entry.leader_epoch > kept[-1].leader_epoch and entry.start_offset > kept[-1].start_offset):
            kept.append(entry)
    return kept


def _told(same: Duplicate | None) -> dict[str, Any] | None:
    return asdict(same) if same is not None else None


def _text(data: bytes | None) -> str | None:
    """Bytes in JSON: base64."""
    return None if data is None else base64.b64encode(data).decode()
