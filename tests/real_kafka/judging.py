"""The ledger judges a snapshot and what the auditor says of it.

In: what was acknowledged before a capture began, the snapshot, its report and facts. Out: assertions. The snapshot's
records are read here by their bytes, not taken from the auditor's facts; of the facts only which replica is the
reference, who is in sync and where the log starts is believed, and the brokers were asked those.

    each acknowledged record   is at its offset, whole, on the replicas that must have it
                               or below the log start, or replaced by a newer one of its key (compaction)
                               or in a reported loss: all of them, and nothing else, are in there
    each record on a disk      was sent from here, and, unless it came from a plain producer, is there once, or is
                               reported as repeated
    each repetition reported   is the same record twice, by the bytes of the broker that it is reported of
"""

import json
import os
import subprocess
import sys
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Acknowledged, Ledger, Outcome, ProducerKind, ranges, value_digest
from tidegauge.cli import capture
from tidegauge.derivation.fact_files import read_relation
from tidegauge.kafka_log.records import Record, records_in
from tidegauge.kafka_log.scan import scan_buffer

REPETITION = "E06"
"""What a client stores twice of its own accord: true, and so no false alarm. The ledger knows whether it is."""

Row = dict[str, Any]
Place = tuple[str, str, int]
"""Code, topic, partition of a breach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A capture, and what had been acknowledged when it began."""

    directory: Path
    acknowledged: Mapping[tuple[str, int], Sequence[Acknowledged]]
    outcomes: Mapping[str, Outcome]
    told: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """A reported one: the first record that comes again on a broker, and where it stood before."""

    broker_id: int
    place: tuple[str, int]
    offset: int
    repeats_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A snapshot's report and facts."""

    directory: Path
    report: Mapping[str, Any]

    def relation(self, name: str) -> list[Row]:
        """A relation's rows."""
        rows: list[Row] = read_relation(self.directory / "facts", name).to_pylist()
        return rows

    def losses(self) -> dict[tuple[str, int], list[Row]]:
        """Reported losses by partition."""
        found: dict[tuple[str, int], list[Row]] = {}
        for loss in self.report["losses"]:
            found.setdefault((loss["topic"], loss["partition"]), []).append(loss)
        return found

    def breaches(self, *severities: str) -> set[Place]:
        """Code, topic and partition of every breach of these severities."""
        return {
            (b["code"], b["subject"].get("topic", ""), b["subject"].get("partition", -1))
            for b in self.report["breaches"]
            if b["severity"] in severities
        }

    def repetitions(self) -> list["Repetition"]:
        """Where a producer repeats in a new epoch what it had written in an older one (E06)."""
        return [
            Repetition(
                broker_id=subject["broker_id"],
                place=(subject["topic"], subject["partition"]),
                offset=breach["start_offset"],
                repeats_offset=breach["evidence"]["repeats_offset"],
            )
            for breach in self.report["breaches"]
            if breach["code"] == REPETITION
            for subject in (breach["subject"],)
        ]

    def explained(self, *severities: str) -> str:
        """The breaches in words, for a failed assertion."""
        return "\n".join(
            f"{b['code']} {b['subject']}: {b['explanation']}\n  {b['evidence']}"
            for b in self.report["breaches"]
            if b["severity"] in severities
        )


@dataclass(slots=True)
class _Reader:
    """One snapshot's user records, by broker and partition; each replica is read once."""

    root: Path
    cached: dict[tuple[int, str, int], dict[int, Record]] = field(default_factory=dict)

    def records(self, broker_id: int, topic: str, partition: int) -> dict[int, Record]:
        key = (broker_id, topic, partition)
        if key not in self.cached:
            self.cached[key] = dict(self._read(*key))
        return self.cached[key]

    def _read(self, broker_id: int, topic: str, partition: int) -> Iterator[tuple[int, Record]]:
        broker = self.root / f"broker-{broker_id}"
        for log in sorted(broker.glob(f"**/{topic}-{partition}/*.log"), key=lambda path: path.name):
            data = log.read_bytes()
            headers, _ = scan_buffer(data)
            for _, records in records_in(data, headers[(headers["attributes"] & 0x20) == 0]):
                if isinstance(records, tuple):
                    yield from ((record.offset, record) for record in records)


def take(
    cluster: KafkaCluster, ledger: Ledger, root: Path, snapshot_id: str, *, ask: bool = True, **options: Any
) -> Taken:
    """Captures a cluster as it is, by `tidegauge capture` in this process."""
    acknowledged, outcomes = ledger.by_partition(), ledger.outcomes()
    wanted = capture.Options(
        cluster="tests",
        out=str(root),
        brokers=tuple(f"{i}={','.join(map(str, cluster.log_dirs(i)))}" for i in cluster.broker_ids),
        snapshot_id=snapshot_id,
        bootstrap=cluster.bootstrap if ask else None,
        **options,
    )
    told = capture.run(wanted, say=lambda line: None, warn=lambda line: None)
    return Taken(directory=Path(told["snapshot"]), acknowledged=acknowledged, outcomes=outcomes, told=told)


def audit(snapshots: Sequence[Path], out: Path, *options: str) -> dict[str, Audited]:
    """Audits all of them in one run of the command line; reports by snapshot id."""
    # Another session of pytest makes pytest's own directories unreadable to the user that Postgres runs as under root.
    with tempfile.TemporaryDirectory(prefix="tidegauge-home-") as home:
        return _audited(snapshots, out, home, *options)


def _audited(snapshots: Sequence[Path], out: Path, home: str, *options: str) -> dict[str, Audited]:
    environment = {**os.environ, "TIDEGAUGE_HOME": home, "TIDEGAUGE_STORE_URL": ""}
    command = [sys.executable, "-c", "from tidegauge.cli.start import run; run()", "audit", *map(str, snapshots)]
    command += ["--out", str(out), "--store", "none", "--fail-on", "never", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr[-4000:]
    found = {}
    for path in [*out.glob("report.json"), *out.glob("*/*/report.json")]:
        report = json.loads(path.read_text())
        found[report["run"]["snapshot_id"]] = Audited(directory=path.parent, report=report)
    assert len(found) == len(snapshots)
    return found


def judge(
    taken: Taken,
    audited: Audited,
    ledger: Ledger,
    *,
    at_rest: bool,
    compacted: Collection[str] = (),
    shrinking: Collection[str] = (),
    expected: Collection[Place] = (),
    lost: Collection[Acknowledged] = (),
) -> None:
    """Asserts all of the above. `expected` are the breaches above info that must be there, and no other may.

    `at_rest`: nobody wrote and everybody alive was in sync, so that each replica in sync must hold everything. Else a
    record must be on two disks at least, which is what min.insync.replicas=2 promises. `lost` are the records known to
    be gone, or about to go: exactly these must be reported. In `shrinking` topics one replica's log may begin later
    than another's, for each deletes old segments by itself.
    """
    judge_records(taken, audited, ledger, at_rest=at_rest, compacted=compacted, shrinking=shrinking, lost=lost)
    cried = {breach for breach in audited.breaches("critical", "warning") if breach[0] != REPETITION}
    assert cried == set(expected), audited.explained("critical", "warning")


def judge_records(
    taken: Taken,
    audited: Audited,
    ledger: Ledger,
    *,
    at_rest: bool,
    compacted: Collection[str] = (),
    shrinking: Collection[str] = (),
    copies: Mapping[str, int] | None = None,
    lost: Collection[Acknowledged] = (),
) -> None:
    """The same without a word about breaches. `copies`: on how many disks a topic's records must be, if not on two."""
    reader = _Reader(taken.directory)
    rows = {(row["topic"], row["partition"]): row for row in audited.relation("partitions")}
    replicas: dict[tuple[str, int], list[Row]] = {}
    for replica in audited.relation("replicas"):
        if not replica["is_future"]:
            replicas.setdefault((replica["topic"], replica["partition"]), []).append(replica)
    by_now = ledger.by_partition()
    for place, acknowledged in taken.acknowledged.items():
        still = [record for record in acknowledged if record not in lost]
        if place[0] in compacted:
            still = _not_compacted_away(still, by_now[place], taken)
        enough = min((copies or {}).get(place[0], 2), len(rows[place]["replicas"]))
        start = rows[place]["log_start_offset"]
        if not at_rest or place[0] in shrinking:
            start = max(r["log_start_offset"] for r in replicas[place])
        still = [record for record in still if record.offset >= start]
        _judge_partition(place, still, rows[place], replicas[place], reader, at_rest, enough)
    _judge_losses(audited, lost)
    _judge_repetitions(audited, reader, _judge_strangers(reader, replicas, ledger), ledger)
    _judge_transactions(taken, audited, reader, replicas, at_rest=at_rest, compacted=compacted)


def _judge_partition(
    place: tuple[str, int],
    acknowledged: Sequence[Acknowledged],
    row: Row,
    replicas: Sequence[Row],
    reader: _Reader,
    at_rest: bool,
    enough: int,
) -> None:
    held = {r["broker_id"]: reader.records(r["broker_id"], *place) for r in replicas}
    must_hold = {b for b in row["isr"] if b in held} if at_rest else set()
    missing: dict[int, list[int]] = {}
    for record in acknowledged:
        holders = [broker_id for broker_id, records in held.items() if _is(records.get(record.offset), record)]
        if len(holders) < enough or not must_hold <= set(holders):
            missing[record.offset] = holders
    assert not missing, f"{place}: acknowledged and not found (offset: holders) {missing}"


def _not_compacted_away(
    acknowledged: Sequence[Acknowledged], by_now: Sequence[Acknowledged], taken: Taken
) -> list[Acknowledged]:
    """Those that no newer record of their key replaced, not even one that came while the copy was made.

    A transaction that was aborted, or whose end nobody heard of, promises nothing to who reads a compacted topic.
    """
    newest = {record.key: record.offset for record in by_now}
    return [
        record
        for record in acknowledged
        if record.offset >= newest[record.key]
        and (record.transaction is None or taken.outcomes.get(record.transaction) == Outcome.COMMITTED)
    ]


def _is(found: Record | None, record: Acknowledged) -> bool:
    return (
        found is not None
        and found.key == record.key
        and value_digest(found.value) == record.value_digest
    )  # fmt: skip


def _judge_losses(audited: Audited, lost: Collection[Acknowledged]) -> None:
    offsets: dict[tuple[str, int], list[int]] = {}
    for record in lost:
        offsets.setdefault((record.topic, record.partition), []).append(record.offset)
    reported = {
        place: sorted((row["start_offset"], row["end_offset"]) for row in losses)
        for place, losses in audited.losses().items()
    }
    assert reported == {place: ranges(found) for place, found in offsets.items()}


def _reference(replicas: Sequence[Row]) -> int | None:
    """The broker by whose log a partition is judged."""
    return next((r["broker_id"] for r in replicas if r["is_reference"]), None)


def _judge_strangers(
    reader: _Reader, replicas: Mapping[tuple[str, int], Sequence[Row]], ledger: Ledger
) -> dict[tuple[str, int], list[int]]:
    """Every record on a reference replica was sent from here; those of producers with sequences are there once.

    But for what a client stored twice of its own accord: librdkafka sends a batch again under a new producer epoch when
    it has heard no answer (its issue 4953). The offsets at which such records come again, by partition.
    """
    kinds = ledger.kinds()
    again: dict[tuple[str, int], list[int]] = {}
    for (topic, partition), of_partition in replicas.items():
        reference = _reference(of_partition)
        if topic.startswith("__") or reference is None:
            continue
        seen: set[tuple[str, int]] = set()
        for record in reader.records(reference, topic, partition).values():
            if record.value is None:
                continue  # A tombstone tells its key, not its name.
            tag, n, _ = record.value.decode().split(":", 2)
            name = (tag, int(n))
            assert ledger.was_sent(*name), (topic, partition, record.offset, name)
            if kinds.get(tag) != ProducerKind.PLAIN and name in seen:
                again.setdefault((topic, partition), []).append(record.offset)
            seen.add(name)
    return again


def _judge_repetitions(
    audited: Audited, reader: _Reader, again: Mapping[tuple[str, int], Sequence[int]], ledger: Ledger
) -> None:
    """What stands twice in a reference's log is reported as a repetition in a new epoch, and nothing that is none is.

    A cleaner may have taken one of the two from the reference while another replica has both, and a tombstone has no
    name to be known by: so each report is held against the log of the broker that it is of.
    """
    reported = audited.repetitions()
    missed = again.keys() - {r.place for r in reported}
    assert not missed, f"twice in the logs {again}, reported {reported}"
    for told in reported:
        records = reader.records(told.broker_id, *told.place)
        one, other = records.get(told.repeats_offset), records.get(told.offset)
        assert one is not None, f"{told}: no record is at the first"
        assert other is not None, f"{told}: no record is at the second"
        assert _told(one) == _told(other), f"{told}: {one} and {other} are two records"
        written = {(a.tag, a.n) for a in ledger.at(told.place, (told.offset, told.repeats_offset))}
        assert len(written) < 2, f"{told}: these were sent as {written}"


def _told(record: Record) -> tuple[Any, ...]:
    return record.key, record.value, record.timestamp, record.headers


def _judge_transactions(
    taken: Taken,
    audited: Audited,
    reader: _Reader,
    replicas: Mapping[tuple[str, int], Sequence[Row]],
    *,
    at_rest: bool,
    compacted: Collection[str],
) -> None:
    """What a client was told of its transaction is what the log says, of the records that a reference replica has.

    Its coordinator answers once the decision is written; the markers follow, and wait for a partition without a leader.
    A cleaner removes what was aborted: at that offset there is somebody else's transaction then, or none. It also takes
    the markers of what was committed, after delete.retention.ms: then the log does not tell any more.
    """
    ends_later = set() if at_rest else {"open"}
    spans: dict[tuple[str, int], list[Row]] = {}
    for row in audited.relation("transactions"):
        spans.setdefault((row["topic"], row["partition"]), []).append(row)
    for place, acknowledged in taken.acknowledged.items():
        reference = _reference(replicas[place])
        held = reader.records(reference, *place) if reference is not None else {}
        ended = [
            (record, outcome)
            for record in acknowledged
            if record.transaction is not None
            and (outcome := taken.outcomes.get(record.transaction)) in (Outcome.COMMITTED, Outcome.ABORTED)
            and _is(held.get(record.offset), record)
        ]
        offsets = sorted(record.offset for record, _ in ended)
        not_told = {None} if place[0] in compacted else set()
        # Spans of producers that interleave overlap: one of them must be the record's own.
        around: dict[int, set[str | None]] = {}
        for span in spans.get(place, []):
            for at in range(bisect_left(offsets, span["first_offset"]), bisect_right(offsets, span["last_offset"])):
                around.setdefault(offsets[at], set()).add(span["outcome"])
        for record, outcome in ended:
            said = around.get(record.offset)
            assert said is None or said & {outcome, *ends_later, *not_told}, (place, record, said)
