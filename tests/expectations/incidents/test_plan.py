"""The checklist: what it prints a shell takes, whatever names are in it, and what is missing is said."""

import shlex
import subprocess
from string import Formatter
from typing import Any

import pytest

from tests.expectations.incidents.test_grouping import breach, cut, election, loss
from tidegauge.expectations.incidents.grouping import incidents_of
from tidegauge.expectations.incidents.model import Found, Step
from tidegauge.expectations.incidents.plan import Scene, planned, with_bootstrap
from tidegauge.expectations.registry import CATALOGUE

HOSTILE = """a'b "c" <d> HOST:PORT SNAPSHOT $(touch pwned) `touch pwned`; touch pwned"""
SCENE = Scene(snapshot="/backup/my copies/it's one")


def steps_of(found: Found, scene: Scene = SCENE) -> dict[str, Step]:
    (incident,) = incidents_of(found)
    return {step.step: step for step in planned(incident, found, scene).steps}


def found(**values: Any) -> Found:
    return Found(
        cluster="payments",
        breaches=[cut("a", "orders", 100, 150, offset=10)],
        losses=[loss("orders", 100, 150, **values)],
        elections=[election("orders", 0, 10)],
    )


def test_it_begins_with_what_not_to_do_and_saves_before_it_looks_and_decides() -> None:
    steps = steps_of(found(groups_affected=["billing"]))
    assert list(steps) == [
        "avoid", "verify-snapshot", "salvage-orders-0-100-150-broker1", "group-billing",
        "replay-orders-0-100-150", "decide-losses", "audit-again",
    ]  # fmt: skip
    assert shlex.split(steps["salvage-orders-0-100-150-broker1"].command or "") == [
        "tidegauge", "salvage", SCENE.snapshot, "--topic", "orders", "--partition", "0", "--from", "100", "--to", "150",
        "--broker", "1", "--out", "salvaged-orders-0-100-broker1",
    ]  # fmt: skip
    assert steps["decide-losses"].command == "tidegauge losses list --cluster payments"
    assert [s.step for s in steps.values() if s.to_complete] == [
        "group-billing", "replay-orders-0-100-150", "audit-again",
    ]  # fmt: skip
    replay = steps["replay-orders-0-100-150"]
    assert replay.command == "tidegauge replay salvaged-orders-0-100-broker1 --bootstrap HOST:PORT"
    assert with_bootstrap(replay.command, "b1:9092", replay.to_complete) == (
        "tidegauge replay salvaged-orders-0-100-broker1 --bootstrap b1:9092", None,
    )  # fmt: skip


def test_what_no_disk_has_is_saved_from_the_earlier_snapshot_or_said_to_be_looked_for() -> None:
    lost = found(state="lost", held_by=[])
    earlier = steps_of(lost, Scene(snapshot="/s2", previous="/s1"))["salvage-orders-0-100-150"]
    assert (earlier.command or "").startswith("tidegauge salvage /s1 --topic orders")
    without = steps_of(lost)["salvage-orders-0-100-150"]
    assert (without.command, without.sentence[:8]) == (None, "Look for")


def test_what_may_or_may_not_be_cut_is_not_produced_again_and_what_nothing_has_cannot_be() -> None:
    assert not [name for name in steps_of(found(state="possible")) if name.startswith("replay-")]
    assert not [name for name in steps_of(found(state="lost", held_by=[])) if name.startswith("replay-")]


def test_a_copy_without_a_manifest_is_not_verified() -> None:
    assert "verify-snapshot" not in steps_of(found(), Scene(snapshot="/s", has_manifest=False))


def test_a_broker_s_address_is_filled_in_where_one_is_asked_for_and_nowhere_else() -> None:
    step = steps_of(found(groups_affected=[HOSTILE]))[
        "group-" + "a_b_c_d_HOST_PORT_SNAPSHOT_touch_pwned_touch_pwned_touch_pwned"
    ]
    command, to_complete = with_bootstrap(step.command or "", "b1:9092", step.to_complete)
    assert to_complete is None
    assert shlex.split(command)[1:] == ["--bootstrap-server", "b1:9092", "--describe", "--group", HOSTILE]
    salvage = steps_of(found())["verify-snapshot"]
    assert with_bootstrap(salvage.command or "", "b1:9092", None) == (salvage.command, None)


VALUES = {"topic": "orders", "path": "broker-1/orders-0/00000000000000000000.log", "log_dir": "broker-1"}
NAMES = {"group", "transactional_id", "name", "segment_id"}


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_what_each_invariant_asks_for_next_is_taken_by_a_shell(code: str) -> None:
    template = CATALOGUE[code].next
    fields = {field for _, field, _, _ in Formatter().parse(template) if field}
    values = {f: shlex.quote(HOSTILE) if f in NAMES else VALUES.get(f, "7") for f in fields}
    root = breach(f"{code}-1", {"topic": "orders", "partition": 0, "broker_id": 1}, points_to="bit_rot")
    asked = Found(cluster="payments", breaches=[_with_next(root, template.format_map(values))])
    looks = [step for name, step in steps_of(asked).items() if name.startswith("look-")]
    if "tidegauge salvage" in template:
        assert looks == []
        return
    (step,) = looks
    done = subprocess.run(["bash", "-n", "-c", step.command or ""], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    unquoted = "".join(part for n, part in enumerate((step.command or "").replace('"\'"', "").split("'")) if n % 2 == 0)
    assert "<" not in unquoted.replace("<(", ""), "a placeholder that a shell would read as a file"
    if fields & NAMES:
        assert HOSTILE in shlex.split(step.command or "")
    if "HOST:PORT" in unquoted:
        assert "address" in (step.to_complete or "")


def _with_next(root: Any, told: str) -> Any:
    from dataclasses import replace

    return replace(root, next=told)
