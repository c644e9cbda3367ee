"""Random worlds: the same each time, whole without faults; and an audit finds what is expected of them, and no more."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.sampling import one_in
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach
from tidegauge.sim_engine.files.render import render_broker
from tidegauge.sim_engine.random_worlds.expected import matches
from tidegauge.sim_engine.random_worlds.fault_kinds import ABOUT, WorldFault, fault_kinds_named
from tidegauge.sim_engine.random_worlds.file_damage import CHANGES, FOLLOWING
from tidegauge.sim_engine.random_worlds.random_world import RandomMoment, RandomWorld, random_world
from tidegauge.sim_engine.random_worlds.seen import SEEN, SEQUENCES
from tidegauge.sim_engine.random_worlds.strikes import STRIKES
from tidegauge.sim_engine.random_worlds.write_world import write
from tidegauge.sim_engine.rendering import truth_schema

FAMILIES = {code[0] for code in CATALOGUE}
HOURS = 0.012
ALL = tuple(WorldFault)


def digest(world: RandomWorld) -> str:
    """Of all files and truths."""
    found = hashlib.sha256()
    for moment in world.moments:
        if moment.live is not None:
            for taken in moment.live.files:
                found.update(f"{taken.broker_id}/{taken.name} {taken.read_at_ms}".encode() + taken.file.data)
        for disk in moment.disks:
            for name, file in render_broker(disk):
                found.update(f"{disk.broker_id}/{name} {file.size_bytes}".encode() + file.data)
        found.update(repr((moment.truth.to_json(), moment.expected)).encode())
    return found.hexdigest()


# ------------------------------------------------------------------------------------------------------- the worlds


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_another_process_too() -> None:
    code = (
        "from tests.sim_engine.test_random_worlds import ALL, HOURS, digest\n"
        "from tidegauge.sim_engine.random_worlds.random_world import random_world\n"
        "print(digest(random_world(5, hours=HOURS)), digest(random_world(6, faults=ALL, hours=HOURS)))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    here = [digest(random_world(5, hours=HOURS)), digest(random_world(6, faults=ALL, hours=HOURS))]
    assert done.stdout.split() == here
    assert len(set(here)) == 2


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_without_faults_nothing_committed_is_lost_and_clients_get_through(seed: int) -> None:
    world = random_world(seed, hours=HOURS)
    assert [m.expected.injected for m in world.moments] == [()] * len(world.moments)
    for moment in world.moments:
        assert [loss for loss in moment.truth.losses if loss.committed] == []
        assert truth_schema.problems(moment.truth.to_json()) == []
    assert len(world.moments[-1].truth.acknowledged) > 10


def test_more_hours_are_more_traffic() -> None:
    short, long = (random_world(2, hours=hours).moments[-1].truth for hours in (HOURS, 3 * HOURS))
    assert len(long.acknowledged) > 2 * len(short.acknowledged)


@pytest.mark.slow
def test_seeds_make_different_kinds_of_copies() -> None:
    found = [random_world(seed, hours=HOURS).moments for seed in range(8)]
    assert {m.kind for moments in found for m in moments} == {"running", "stopped", "live"}
    assert {len(moments) for moments in found} == {1, 2}
    assert all(m.previous == moments[0].name for moments in found for m in moments[1:])


# ------------------------------------------------------------------------------------------------------- the faults


def test_every_kind_of_fault_is_told_can_strike_and_is_looked_for() -> None:
    assert set(ABOUT) == set(WorldFault)
    assert set(STRIKES) | set(CHANGES) == set(WorldFault)
    assert set(SEEN) == set(STRIKES)
    assert set(FOLLOWING) == set(CHANGES)
    told = {*SEQUENCES, *(code for codes in FOLLOWING.values() for code in codes)}
    assert told - set(CATALOGUE) == set()


def test_a_bit_is_flipped_only_where_a_batch_has_records() -> None:
    """In this world a cleaner has left batches that are nothing but a header."""
    moments = random_world(1064, faults=tuple(WorldFault)).moments
    struck = [each.kind for moment in moments for each in moment.expected.injected]
    assert WorldFault.RECORDS_BIT_FLIP in struck


def test_kinds_are_named_on_a_command_line() -> None:
    assert fault_kinds_named("none") == ()
    assert fault_kinds_named("all") == ALL
    assert fault_kinds_named("kills, power-cut") == (WorldFault.KILLS, WorldFault.POWER_CUT)
    with pytest.raises(ValueError, match="gremlins"):
        fault_kinds_named("kills,gremlins")


def test_what_is_expected_of_a_fault_is_a_finding_or_why_there_is_none() -> None:
    for seed in range(4):
        for moment in random_world(seed, faults=ALL, hours=HOURS).moments:
            for injected in moment.expected.injected:
                assert bool(injected.findings) != bool(injected.unseen), injected


# ------------------------------------------------------------------------------------------------------- the audit


def judged(judge: Judge, world: RandomWorld, directory: Path) -> Iterator[tuple[RandomMoment, list[Breach]]]:
    written = write(world, directory)
    for moment in world.moments:
        previous = written[moment.previous] if moment.previous is not None else None
        yield moment, judge.verdicts(derived(written[moment.name], previous=previous), FAMILIES)[1]


def fits(breach: Breach) -> dict[str, object]:
    subject = breach.subject
    return {
        "code": breach.code,
        "partition": f"{subject['topic']}-{subject['partition']}" if "partition" in subject else None,
        "broker_id": subject.get("broker_id", subject.get("follower_id")),
        "start_offset": breach.start_offset,
        "end_offset": breach.end_offset,
    }


@pytest.mark.parametrize("seed", one_in(2, [3, 5]))
def test_an_audit_of_a_world_without_faults_finds_nothing(seed: int, judge: Judge, tmp_path: Path) -> None:
    for _, breaches in judged(judge, random_world(seed, hours=HOURS), tmp_path):
        assert [fits(b) for b in breaches if b.severity != "info"] == []


@pytest.mark.parametrize(
    ("seed", "kind"),
    one_in(3, [(1, WorldFault.RECORDS_BIT_FLIP), (2, WorldFault.UNCLEAN_ELECTION), (3, WorldFault.EPOCH_CHECKPOINT)]),
)
def test_an_audit_finds_a_fault_and_blames_nothing_else(
    seed: int, kind: WorldFault, judge: Judge, tmp_path: Path
) -> None:
    world = random_world(seed, faults=(kind,))
    assert any(moment.expected.findings for moment in world.moments)
    for moment, breaches in judged(judge, world, tmp_path):
        told = [fits(b) for b in breaches]
        expected = moment.expected
        assert [f for f in expected.findings if not any(matches(f, **each) for each in told)] == []  # type: ignore[arg-type]
        alarms = [each for each, b in zip(told, breaches, strict=True) if b.severity != "info"]
        known = (*expected.findings, *expected.allowed)
        assert [a for a in alarms if not any(matches(f, **a) for f in known)] == []  # type: ignore[arg-type]
