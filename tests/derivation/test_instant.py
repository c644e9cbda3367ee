"""When a snapshot was captured: by its manifest, by the controller's clock, or by nobody's."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.apart import METADATA, whole_copy
from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived, derived_once
from tests.derivation.test_captured_nodes import judged
from tests.sampling import one_in
from tidegauge.audit.latest_snapshots import captured_at, resolve
from tidegauge.derivation.metadata.metadata_log import read_metadata
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.sim_engine.random_worlds.random_world import random_world
from tidegauge.sim_engine.random_worlds.write_world import write
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.scenarios.write_moment import write_moment
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.listing import listing

NOT_KNOWN = "the instant of the capture is not known"


def without_metadata(capture: Path, target: Path) -> Path:
    copy = whole_copy(capture, target)
    for log in copy.glob(f"broker-*/{METADATA}"):
        shutil.rmtree(log)
    return copy


def test_a_simulated_snapshot_says_when_it_was_taken_as_a_capture_does(tmp_path: Path) -> None:
    moment = SCENARIOS["unclean-election"].play(1).moments[-1]
    directory = write_moment(moment, tmp_path / "s", cluster="c", seed=1)
    manifest = open_snapshot(directory).manifest
    now = moment.world.now_ms
    assert {(b.read_started_at_ms, b.read_finished_at_ms) for b in manifest.brokers} == {(now, now)}
    assert {f.read_at_ms for f in manifest.files()} == {now}
    written = {f.path.rsplit("/", 1)[-1] for f in manifest.files() if f.modified_at_ns is not None}
    assert "partition.metadata" in written
    assert derived(directory).context.captured_at_ms == now
    assert captured_at(open_snapshot(directory)) == datetime.fromtimestamp(now / 1000, UTC)


def test_every_moment_of_a_random_world_is_of_its_own_instant(tmp_path: Path) -> None:
    world = random_world(5, hours=0.02)
    places = write(world, tmp_path)
    for moment in world.moments:
        at = captured_at(open_snapshot(places[moment.name]))
        assert at is not None
        assert abs(at.timestamp() * 1000 - moment.world.now_ms) < 1, moment.name


def test_a_simulated_day_is_found_by_its_own_instant_and_not_by_its_last_metadata_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", str(tmp_path))
    moment = SCENARIOS["unclean-election"].play(1).moments[-1]
    write_moment(moment, tmp_path / "c" / "one", cluster="c", seed=1)
    snapshot = open_snapshot(tmp_path / "c" / "one")
    last = read_metadata(snapshot.root, listing(snapshot.manifest), []).history.last_record_at_ms
    assert last is not None
    assert last < moment.world.now_ms
    at = datetime.fromtimestamp(moment.world.now_ms / 1000, UTC)
    assert resolve("latest", "c", as_of=at.isoformat()) == str(tmp_path / "c" / "one")
    with pytest.raises(SnapshotError, match="No snapshot of c"):
        resolve("latest", "c", as_of=datetime.fromtimestamp(last / 1000, UTC).isoformat())


@pytest.mark.slow
def test_a_copy_without_a_metadata_log_is_dated_by_no_clients_clock(golden: Golden, tmp_path: Path) -> None:
    copy = without_metadata(golden("healthy"), tmp_path / "copy")
    facts = derived(copy)
    assert any(row["max_timestamp_ms"] is not None for row in facts.index.values())
    assert facts.context.captured_at_ms is None
    assert captured_at(open_snapshot(copy)) is None


def test_a_copy_is_dated_by_the_controllers_clock_where_it_was_captured(golden: Golden) -> None:
    for name in ("healthy", "unclean-before", "soak-01", "disk-failed"):
        assert derived_once(golden(name)).context.captured_at_ms is not None


@pytest.mark.slow
def test_a_metadata_log_that_ended_before_the_coordinators_dates_nobody(golden: Golden, tmp_path: Path) -> None:
    """Of two captures of one cluster: the logs of the second, the metadata logs of the first, three minutes older."""
    copy = without_metadata(golden("pair-clean-b2"), tmp_path / "copy")
    for node in (1, 2, 3):
        shutil.copytree(golden("pair-clean-b1") / f"broker-{node}" / METADATA, copy / f"broker-{node}" / METADATA)
    assert derived(copy).context.captured_at_ms is None
    assert derived_once(golden("pair-clean-b2")).context.captured_at_ms is not None


@pytest.mark.parametrize("name", one_in(3, ["healthy", "hanging-txn", "pair-clean-b2"]))
def test_rules_about_ages_say_that_they_do_not_know_and_raise_no_alarm(
    name: str, golden: Golden, judge: Judge, tmp_path: Path
) -> None:
    previous = golden("pair-clean-b1") if name == "pair-clean-b2" else None
    facts = derived(without_metadata(golden(name), tmp_path / "copy"), previous=previous)
    alarms = {b.code for b in judged(judge, facts)}
    sound = derived_once(golden(name)) if previous is None else derived(golden(name), previous=previous)
    assert alarms <= {b.code for b in judged(judge, sound)}
    results, _ = judge.verdicts(facts, {c[0] for c in CATALOGUE})
    assert results["C05"].verdict == "unknown", "nothing tells the policy either"
    assert results["E08"].reasons.get(NOT_KNOWN)
    if name == "hanging-txn":
        assert results["F08"].reasons.get(NOT_KNOWN)
