"""What retention and the cleaner did, or should have done, in a simulated cluster: sound, and with one thing broken."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.derivation.damage import batches, edit, place, segments
from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.derivation.rejoined import truncate
from tests.derivation.storage_breaks import BROKERS, checkpointed, rewritten
from tests.sampling import one_in
from tests.snapshots.one_manifest import in_one_file
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import fold
from tidegauge.kafka_log.records import RecordBatch, read_batch
from tidegauge.sim_engine import actions
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.log.stored_batch import NewRecord
from tidegauge.sim_engine.rendering.snapshot import snapshot_of
from tidegauge.sim_engine.rendering.write_snapshot import write_snapshot
from tidegauge.sim_engine.scenarios.stage import CHECKPOINTED_MS, ORDERS, SETTLED_MS, cluster, with_producer
from tidegauge.sim_engine.world import World
from tidegauge.snapshots.manifest import Consistency

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
KEPT: Final = {"segment.bytes": "1000", "retention.ms": "-1", "retention.bytes": "-1"}
CLEANED: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(2 * DAY_MS),
}


@cache
def world_of(*config: tuple[str, str]) -> World:
    """`orders` with 60 records under six keys, a batch each; then key 5 is deleted, and keys 0 to 3 are written on."""
    world = with_producer(cluster(1, config=dict(config)), "app")
    for number in range(60):
        world = put(world, number % 6, b"value %d " % number * 4)
    world = run_for(put(world, 5, None), SETTLED_MS)
    for number in range(30):
        world = put(world, number % 4, b"value %d " % number * 4)
    return run_for(world, CHECKPOINTED_MS)


def put(world: World, key: int, value: bytes | None) -> World:
    record = NewRecord(timestamp=-1, key=b"key %d" % key, value=value)
    return run_for(step(world, actions.ProduceCall(client="app", partition=ORDERS, records=(record,))), 20)


def written(directory: Path, config: Mapping[str, str]) -> Path:
    """A snapshot of that world."""
    write_snapshot(
        directory,
        snapshot_of(world_of(*config.items())),
        cluster="simulated",
        snapshot_id=directory.name,
        consistency=Consistency.ATOMIC,
        truth={},
    )
    return directory


def taken(directory: Path, config: Mapping[str, str], *, later_ms: int) -> Path:
    """As if it had been taken so much later, with the files as they are by now."""
    path = directory / "MANIFEST.json"
    manifest = in_one_file(directory)
    at = world_of(*config.items()).now_ms + later_ms
    for broker in manifest["brokers"]:
        broker["read_started_at_ms"] = broker["read_finished_at_ms"] = at
        files = [f for f in broker["files"] if (directory / f["path"]).exists()]
        broker["files"] = [f | {"size_bytes": (directory / f["path"]).stat().st_size, "sha256": None} for f in files]
    path.write_text(json.dumps(manifest))
    return directory


def roots(judge: Judge, directory: Path, previous: Path | None = None) -> set[str]:
    _, breaches = judge.verdicts(derived(directory, previous=previous), {c[0] for c in CATALOGUE})
    return {b.code for b in fold(breaches, CATALOGUE) if b.implied_by is None}


def replicas(d: Path) -> Iterator[Path]:
    return (d / broker / "orders-0" for broker in BROKERS)


def without_last_of(d: Path, key: bytes) -> None:
    """Each replica without the last record of a key, whose batch stays."""
    for replica in replicas(d):
        path, at = [
            (path, at)
            for path in segments(replica)[:-1]
            for at, batch in enumerate(batches_of(path))
            if any(record.key == key for record in batch.records)
        ][-1]
        rewritten(path, at, lambda batch: replace(batch, records=tuple(r for r in batch.records if r.key != key)))
        for suffix in (".index", ".timeindex"):
            path.with_suffix(suffix).write_bytes(b"")


def batches_of(path: Path) -> list[RecordBatch]:
    data = path.read_bytes()
    found = [read_batch(data[slice(*place(row))]) for row in batches(path)]
    return [batch for batch in found if isinstance(batch, RecordBatch)]


# ------------------------------------------------------------------------------------------------------- what breaks


def a_key_is_gone(before: Path, after: Path) -> None:
    without_last_of(after, b"key 4")


def a_tombstone_is_gone(before: Path, after: Path) -> None:
    without_last_of(after, b"key 5")


def the_cleaner_stands_still(before: Path, after: Path) -> None:
    for directory in (before, after):
        for broker in BROKERS:
            (directory / broker / "cleaner-offset-checkpoint").write_text("0\n0\n")
    for replica in replicas(before):
        path = segments(replica)[-2]
        start, end = place(batches(path)[0])
        edit(path, lambda data, start=start, end=end: data[:start] + data[end:])  # type: ignore[misc]


def the_head_is_gone(before: Path, after: Path) -> None:
    for replica in replicas(after):
        for path in replica.glob(f"{0:020d}.*"):
            path.unlink()


def deleted_segments_stay(before: Path, after: Path) -> None:
    for directory in (before, after):
        for broker in BROKERS:
            end = int(segments(directory / broker / "orders-0")[1].stem)
            checkpointed(directory / broker, "log-start-offset-checkpoint", "orders", 0, end)


CHANGED: dict[Callable[[Path, Path], None], tuple[str, Mapping[str, str]]] = {
    a_key_is_gone: ("G01", CLEANED),
    a_tombstone_is_gone: ("G03", CLEANED),
    the_cleaner_stands_still: ("G09", CLEANED),
    the_head_is_gone: ("C06", KEPT),
    deleted_segments_stay: ("C04", KEPT),
}


@pytest.mark.parametrize(("break_it", "expected"), one_in(3, CHANGED.items(), [b.__name__ for b in CHANGED]))
def test_one_thing_that_happened_meanwhile_is_one_root(
    break_it: Callable[[Path, Path], None], expected: tuple[str, Mapping[str, str]], tmp_path: Path, judge: Judge
) -> None:
    code, config = expected
    before, after = written(tmp_path / "before", config), written(tmp_path / "after", config)
    break_it(before, after)
    taken(before, config, later_ms=0)
    assert roots(judge, taken(after, config, later_ms=HOUR_MS), before) == {code}


@pytest.mark.parametrize("config", [CLEANED, KEPT], ids=["cleaned", "kept"])
def test_an_hour_in_which_nothing_happens_breaches_nothing(
    config: Mapping[str, str], tmp_path: Path, judge: Judge
) -> None:
    before = taken(written(tmp_path / "before", config), config, later_ms=0)
    assert roots(judge, taken(written(tmp_path / "after", config), config, later_ms=HOUR_MS), before) == set()


def test_a_key_may_be_deleted_and_forgotten_between_two_snapshots(tmp_path: Path, judge: Judge) -> None:
    before, after = written(tmp_path / "before", CLEANED), written(tmp_path / "after", CLEANED)
    a_key_is_gone(before, after)
    taken(before, CLEANED, later_ms=0)
    facts = derived(taken(after, CLEANED, later_ms=3 * DAY_MS), previous=before)
    results, breaches = judge.verdicts(facts, "G")
    assert breaches == []
    assert dict(results["G01"].reasons) == {"a deletion may have come and gone": 3}


@pytest.mark.parametrize(("early_ms", "breached"), [(60_000, 0), (HOUR_MS, 3)])
def test_a_tombstone_may_go_when_its_time_is_over_by_its_brokers_clock(
    early_ms: int, breached: int, tmp_path: Path, judge: Judge
) -> None:
    """Who captures dates the copy, by another clock."""
    before, after = written(tmp_path / "before", CLEANED), written(tmp_path / "after", CLEANED)
    a_tombstone_is_gone(before, after)
    taken(before, CLEANED, later_ms=0)
    facts = derived(taken(after, CLEANED, later_ms=2 * DAY_MS - early_ms), previous=before)
    assert judge.verdicts(facts, "G")[0]["G03"].breached == breached


def test_a_moved_log_start_that_a_running_broker_has_not_written_down_is_not_judged(
    tmp_path: Path, judge: Judge
) -> None:
    # DeleteRecords takes segments at once; the checkpoint follows a minute later and names an older start until then.
    before, after = written(tmp_path / "before", KEPT), written(tmp_path / "after", KEPT)
    the_head_is_gone(before, after)
    for broker, older in zip(BROKERS, (1, 1, int(segments(after / BROKERS[2] / "orders-0")[0].stem)), strict=True):
        checkpointed(after / broker, "log-start-offset-checkpoint", "orders", 0, older)
    taken(before, KEPT, later_ms=0)
    path = taken(after, KEPT, later_ms=HOUR_MS) / "MANIFEST.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"consistency": Consistency.FUZZY}))
    results, breaches = judge.verdicts(derived(after, previous=before), "C")
    assert [(b.code, b.subject["broker_id"]) for b in breaches] == [("C06", 3)]
    assert dict(results["C06"].reasons) == {"log start not checkpointed": 2}


def test_what_should_have_been_deleted_is_told(tmp_path: Path, judge: Judge) -> None:
    config = KEPT | {"retention.ms": "3600000"}
    late = taken(written(tmp_path / "late", config), config, later_ms=DAY_MS)
    assert roots(judge, late) == {"C05"}


def test_a_part_that_is_called_clean_and_is_not_is_told(tmp_path: Path, judge: Judge) -> None:
    config = CLEANED | {"min.compaction.lag.ms": str(DAY_MS)}
    dirty = written(tmp_path / "dirty", config)
    for replica in replicas(dirty):
        checkpointed(replica.parent, "cleaner-offset-checkpoint", "orders", 0, int(segments(replica)[-1].stem))
    assert roots(judge, taken(dirty, config, later_ms=0)) == {"G02"}


def test_a_log_whose_last_batch_the_cleaner_took_is_told(tmp_path: Path, judge: Judge) -> None:
    both = [written(tmp_path / name, CLEANED) for name in ("before", "after")]
    for directory in both:
        for replica in replicas(directory):
            active = segments(replica)[-1]
            truncate(replica, int(active.stem))
            for suffix in (".index", ".timeindex"):
                active.with_suffix(suffix).write_bytes(b"")
            for name in ("cleaner-offset-checkpoint", "recovery-point-offset-checkpoint"):
                checkpointed(replica.parent, name, "orders", 0, int(active.stem))
            rewritten(segments(replica)[-2], -1, lambda batch: replace(batch, records=()))
    for replica in replicas(both[1]):
        path = segments(replica)[-2]
        start, end = place(batches(path)[-1])
        edit(path, lambda data, start=start, end=end: data[:start] + data[end:])  # type: ignore[misc]
        for suffix in (".index", ".timeindex"):
            path.with_suffix(suffix).write_bytes(b"")
    before, after = (taken(d, CLEANED, later_ms=n * HOUR_MS) for n, d in enumerate(both))
    assert roots(judge, after, before) == {"G05"}
