"""Damaged partitions: what Kafka's recovery leaves is the sound prefix that Tidegauge sees, with the same facts.

Each damaged copy is loaded by Kafka after a stop that was not clean, so every segment from the recovery point on is
read, and cut at the first batch that does not hold. Tidegauge says where that is from its own reading. Then the facts
of what it says is left (the damaged copy cut there) must be what Kafka ended with.

A log that was stopped cleanly and damaged afterwards is not asked about: Kafka believes its index files then, and what
it makes of a log that is shorter than its index says nothing about the log.
"""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import Golden
from tests.derivation.pipeline import derived
from tests.oracle.kafka import Oracle
from tests.oracle.mutations import Mutation, damaged_copies
from tests.oracle.replicas import Replica, aborted_by_replay, differences, replicas_of, states_above_start
from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.kafka_log.corruption import Damage
from tidegauge.kafka_log.scan import scan_buffer

pytestmark = pytest.mark.slow

SEED: Final = 1
COUNT: Final = 384
SOURCES: Final = (
    ("pair-clean-b2", "broker-1/txn-0"),
    ("hanging-txn", "broker-1/pay-0"),
    ("epochs", "broker-1/bursty-0"),
    ("pair-clean-b2", "broker-1/events-0"),
    ("healthy", "broker-1/txn-1"),
    ("pair-clean-b2", "broker-1/compacttx-0"),
    ("soak-01", "broker-1/txn-0"),
    ("unclean-before", "broker-1/orders-0"),
)
MOST_RELATIVE_OFFSET: Final = 2**31 - 1

Kept = list[list[int]]


def test_what_kafka_leaves_of_damaged_logs_is_what_tidegauge_sees(
    golden: Golden, oracle: Oracle, tmp_path: Path
) -> None:
    damaged, cut = tmp_path / "damaged", tmp_path / "cut"
    made = damaged_copies([golden(c) / d for c, d in SOURCES], damaged, seed=SEED, count=COUNT)
    hurt = {r.facts.given.place.partition: r for r in replicas_of(derived(damaged, cluster="c"), "damaged")}
    assert sorted(hurt) == [mutation.partition for mutation in made]
    shutil.copytree(damaged, cut)
    kept = {mutation.partition: _cut_to_prefix(cut, hurt[mutation.partition]) for mutation in made}
    left = {r.facts.given.place.partition: r for r in replicas_of(derived(cut, cluster="c"), "cut")}
    met: Counter[str] = Counter()
    for mutation in made:
        replica, rest = hurt[mutation.partition], left[mutation.partition]
        where = f"seed {SEED}: {mutation}, recovery point {replica.facts.checkpointed.recovery_point_offset}"
        kafka = oracle.ask(replica.job(with_batches=False, high_watermarks=rest.high_watermarks()))
        if "error" in kafka:
            met["refused"] += 1
            assert _told(replica.facts), f"{where}: Kafka does not load it: {kafka['error']}"
        elif _offsets_in_disorder(rest):
            # Whether Kafka keeps such a segment, empties it or renames it hangs on which batches its index points at.
            met["in disorder"] += 1
            assert _told(replica.facts), where
        else:
            met["compared"] += 1
            met["shortened"] += kept[mutation.partition] != _sizes(replica)
            assert kafka["segments"] == kept[mutation.partition], where
            found = {k: v for k, v in differences(rest, kafka).items() if not _explained(k, v, mutation, rest)}
            assert found == {}, where
            if not rest.facts.damaged_batches:
                replay = rest.recovered.snapshot_replay or rest.facts.replay
                ours = _recovered_aborted(rest, aborted_by_replay(rest.facts, replay))
                assert ours == _recovered_aborted(rest, kafka["aborted"]), where
    assert met["compared"] > COUNT * 0.8, met
    assert min(met["refused"], met["in disorder"], met["shortened"]) > 3, met


def _sizes(replica: Replica) -> Kept:
    return [[s.base_offset, s.size_bytes] for s in replica.facts.given.segments]


def _first_recovered(replica: Replica) -> int:
    bases = [s.base_offset for s in replica.facts.given.segments]
    point = replica.facts.checkpointed.recovery_point_offset or 0
    return max((base for base in bases if base <= point), default=bases[0])


def _cut_to_prefix(snapshot: Path, replica: Replica) -> Kept:
    """Leaves of a copy what recovery would leave: everything up to the first damage in a segment that is recovered."""
    directory = snapshot / replica.facts.given.place.directory
    first = _first_recovered(replica)
    kept: Kept = []
    for log in sorted(directory.glob("*.log")):
        base, size = int(log.stem), log.stat().st_size
        if kept and kept[-1][1] < 0:
            for file in directory.glob(f"{log.stem}.*"):
                file.unlink()
            continue
        end = _first_damage(log) if base >= first else None
        if end is not None and end < size:
            with log.open("r+b") as opened:
                opened.truncate(end)
            kept.append([base, end])
            kept.append([base, -1])
        else:
            kept.append([base, size])
    return [each for each in kept if each[1] >= 0]


def _first_damage(log: Path) -> int | None:
    """Where the first batch lies that cannot be read, or whose checksum is wrong (for a reader of its magic)."""
    headers, corruptions = scan_buffer(log.read_bytes())
    bad = headers[(headers["crc_valid"] == 0) | (headers["magic"] < 2)]["position"].tolist()
    bad += [c.position for c in corruptions if c.kind in (Damage.LENGTH, Damage.TORN_TAIL)]
    return min(bad, default=None)


def _offsets_in_disorder(replica: Replica) -> bool:
    """Base offsets, which no checksum covers, that do not rise, or lie outside what a segment can hold."""
    for segment in replica.facts.given.segments:
        last = segment.base_offset - 1
        headers, _ = scan_buffer((replica.root / segment.path).read_bytes())
        for base, end in zip(headers["base_offset"].tolist(), headers["last_offset"].tolist(), strict=True):
            if base <= last or end - segment.base_offset > MOST_RELATIVE_OFFSET:
                return True
            last = end
    return False


def _told(facts: ReplicaFacts) -> bool:
    """Whether the facts speak of any damage in this replica."""
    checkpoint = facts.given.epoch_checkpoint
    of_indexes = (
        i.facts.form_errors + i.facts.pointer_errors + i.facts.range_errors + i.facts.missing_entries
        + i.facts.extra_entries + i.facts.wrong_entries + i.facts.last_stable_offset_errors + (not i.facts.readable)
        for i in facts.index_files
    )  # fmt: skip
    return bool(
        facts.damaged_batches
        or facts.epoch_checkpoint_disorder
        or (checkpoint is not None and checkpoint.corruptions)
        or any(of_indexes)
        or any(any(row.counts.values()) for row in facts.segments)
    )


def _explained(name: str, said: tuple[Any, Any], mutation: Mutation, rest: Replica) -> bool:
    """The differences that are Kafka's way of loading, not another opinion about the log."""
    ours, theirs = said
    if name in ("replayed producers", "first unstable offsets"):
        # Damage below the recovery point is not cut off, and what a batch says whose checksum is wrong is anybody's
        # guess: Kafka's replay believes it or stops there with an error.
        return rest.facts.damaged_batches > 0
    if name == "producers" and "index" in mutation.done:
        # A segment whose index is missing or broken is recovered wherever it lies, and drops all later snapshots.
        return bool(theirs == states_above_start(rest.facts))
    if name == "epochs" and rest.facts.summary.count("epoch_order"):
        # No checksum covers a batch's epoch. Kafka's recovery believes it against the checkpoint and all batches behind
        # it; the facts keep the checkpoint, and tell of the batch.
        return True
    if name == "epochs" and "leader-epoch-checkpoint" in mutation.done and theirs:
        # Without the file, Kafka finds epochs in the segments that it recovers; the facts, in all.
        first_epoch, first_offset = theirs[0]
        at_first = [epoch for epoch, offset in ours if offset <= first_offset][-1:]
        return at_first == [first_epoch] and [e for e in ours if e[1] > first_offset] == theirs[1:]
    return False


def _recovered_aborted(rest: Replica, entries: list[list[int]]) -> list[list[int]]:
    """Aborted transactions of the recovered segments, whose indexes Kafka has written anew."""
    first = _first_recovered(rest)
    return [entry for entry in entries if entry[0] >= first]
