"""The documented form of TRUTH.json is the one that the ledger has."""

import json
from dataclasses import MISSING, Field, fields
from typing import Any

import pytest

from tests.sim_engine.clusters import ORDERS, cluster, leader, said
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine import actions, truth
from tidegauge.sim_engine.engine import run_for, step
from tidegauge.sim_engine.log.persistent import Trail
from tidegauge.sim_engine.rendering.truth_schema import NOTES, OFFSETS, markdown, problems

CLASSES = {
    "acknowledged": truth.Acknowledged,
    "consumed": truth.Consumed,
    "told": truth.Told,
    "watermarks": truth.Watermark,
    "elections": truth.Elected,
    "losses": truth.Lost,
    "truncations": truth.Truncated,
    "faults": truth.Fault,
}
EXAMPLES = {
    "int": 7,
    "int[]": (1, 2),
    "text": "some",
    "text?": None,
    "bool": True,
    "partition": TopicPartition("orders", 0),
    "partition?": None,
}


def full() -> dict[str, Any]:
    """A ledger with one note of every kind, written and read."""
    notes: dict[str, Any] = {
        name: Trail[Any]().appended(kind(**{key.name: EXAMPLES[key.type] for key in NOTES[name].fields}))
        for name, kind in CLASSES.items()
    }
    whole = truth.Truth(**notes).with_lineage(TopicPartition("orders", 0), truth.Lineage(leader=1, leader_epoch=0))
    found: dict[str, Any] = json.loads(json.dumps(whole.to_json()))
    return found


@pytest.mark.parametrize("name", CLASSES)
def test_every_field_of_a_note_is_described(name: str) -> None:
    kept: tuple[Field[Any], ...] = fields(CLASSES[name])
    assert [each.name for each in kept] == [key.name for key in NOTES[name].fields]
    assert all(each.default_factory is MISSING for each in kept)


def test_every_list_of_the_ledger_is_described() -> None:
    document = full()
    assert document.keys() == {"schema_version", "partitions", *NOTES}
    assert document["partitions"]["orders-0"].keys() == {key.name for key in OFFSETS}


def test_a_ledger_with_every_kind_of_note_is_of_the_schema() -> None:
    assert problems(full()) == []


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("schema_version",), 2, "schema_version is 2, not 1"),
        (("losses",), {}, "losses is no list"),
        (("losses", 0, "start_offset"), "7", "losses[0].start_offset is no int"),
        (("losses", 0, "committed"), 1, "losses[0].committed is no bool"),
        (("elections", 0, "isr"), [1, "2"], "elections[0].isr is no int[]"),
        (("faults", 0, "partition"), 3, "faults[0].partition is no partition?"),
        (("acknowledged", 0, "acks"), True, "acknowledged[0].acks is no int"),
        (("partitions", "orders-0", "high_watermark"), None, "partitions.orders-0.high_watermark is no int"),
        (("partitions",), [], "partitions is no object"),
        (("told", 0), "a word", "told[0] is no object"),
    ],
)
def test_what_is_of_another_form_is_named(path: tuple[Any, ...], value: object, expected: str) -> None:
    document = full()
    at: Any = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert problems(document) == [expected]


def test_a_missing_field_is_named() -> None:
    document = full()
    del document["watermarks"][0]["leader"]
    assert problems(document) == ["watermarks[0].leader is missing"]


def test_the_tables_for_people_have_every_key() -> None:
    text = markdown()
    for name, notes in NOTES.items():
        assert f"| `{name}` |" in text
        for key in notes.fields:
            assert f"| `{key.name}` | {key.type} |" in text


def test_a_worlds_ledger_is_of_the_schema() -> None:
    world = run_for(step(cluster(), actions.StartProducer(client="p", idempotent=True)), 1_000)
    world = run_for(step(world, actions.StartConsumer(client="c", partitions=(ORDERS,))), 500)
    for number in range(5):
        world = run_for(said(world, "p", f"{number}"), 300)
    world = run_for(step(world, actions.Kill(leader(world))), 20_000)
    document = json.loads(json.dumps(world.truth.to_json()))
    assert problems(document) == []
    assert all(document[name] for name in ("acknowledged", "consumed", "watermarks", "elections", "faults"))
