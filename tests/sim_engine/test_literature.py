"""The literature's stories: what is true of each, and that docs/concepts/literature.md says of them what an audit says.

Truths are looked up in the world here, and not taken from what the files claim of it.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.sampling import one_in
from tests.sim_engine.test_scenarios import FAMILIES, at, batches, cuts, elections, ends, epochs, played, texts, told
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.scenarios.shipped import SCENARIOS as SHIPPED
from tidegauge.sim_engine.scenarios.stage import ORDERS, A, B, C
from tidegauge.sim_engine.scenarios.write_moment import write_moment
from tidegauge.sim_engine.transaction_notes import TransactionTold

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "literature.md"


class Row(NamedTuple):
    """A claim of the literature that is played."""

    document: str
    claim: str
    scenario: str
    moment: str
    code: str
    audit: str
    test: str


def cells(heading: str) -> list[list[str]]:
    part = PAGE.read_text(encoding="utf-8").split(f"## {heading}")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def rows() -> list[Row]:
    found = []
    for document, claim, where, code, audit, test in cells("What is played"):
        scenario, moment = where.split(", ")
        found.append(Row(document, claim, scenario, moment, code, audit, test))
    return found


def by_moment() -> dict[tuple[str, str], list[Row]]:
    grouped: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows():
        grouped[row.scenario, row.moment].append(row)
    return grouped


# ------------------------------------------------------------------------------------------------- the page


def test_each_row_names_a_scenario_a_moment_an_invariant_and_a_test_that_there_are() -> None:
    for row in rows():
        assert row.scenario in SCENARIOS, row
        assert row.moment in {moment.name for moment in played(row.scenario).moments}, row
        assert row.code in CATALOGUE, row
        assert row.audit in ("breached", "holds"), row
        file, _, name = row.test.partition("::")
        module = ast.parse((Path(__file__).parent / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in module.body if isinstance(node, ast.FunctionDef)}, row
    assert {row.document[:3] for row in rows()} == {"000", "001", "002", "003", "004"}
    assert {scenario.name for scenario in SHIPPED} <= {row.scenario for row in rows()}


def test_what_is_wrong_is_shown_by_a_scenario() -> None:
    wrong = cells("Where the literature is wrong")
    assert len(wrong) > 5
    assert {shown for _, _, _, shown in wrong} <= set(SCENARIOS)


@pytest.mark.parametrize(("scenario", "moment"), one_in(5, by_moment()))
def test_an_audit_says_what_the_rows_say(scenario: str, moment: str, judge: Judge, tmp_path: Path) -> None:
    copied = played(scenario).moment(moment)
    for each in played(scenario).moments:
        if each.name in (moment, copied.previous):
            write_moment(each, tmp_path / each.name, cluster="simulated", seed=1)
    previous = tmp_path / copied.previous if copied.previous is not None else None
    results, _ = judge.verdicts(derived(tmp_path / moment, previous=previous), FAMILIES)
    for row in by_moment()[scenario, moment]:
        said = results[row.code]
        assert said.checked > 0, row
        assert (said.breached > 0) == (row.audit == "breached"), row


# ------------------------------------------------------------------------------------------------- their truths


def test_a_leads_again() -> None:
    away, again = (moment.world for moment in played("a-leads-again").moments)
    assert [texts(away, b) for b in (A, B, C)] == [["M1", "M2", "M3"], ["M1", "M2", "M4"], ["M1", "M2", "M4"]]
    assert elections(again) == [("first", A), ("clean", B), ("preferred", A)]
    assert [texts(again, b) for b in (A, B, C)] == [["M1", "M2", "M4", "M5"]] * 3
    assert [epochs(again, b) for b in (A, B, C)] == [[(0, 0), (1, 2), (2, 3)]] * 3
    assert [batch.leader_epoch for batch in batches(again, C)] == [0, 0, 1, 2]
    assert cuts(again) == [(A, 2, 3)]


def test_unclean_100_200() -> None:
    alone, elected, back = (moment.world for moment in played("unclean-100-200").moments)
    assert [ends(world) for world in (alone, elected, back)] == [
        {A: 201, B: 100, C: 100},
        {A: 201, B: 120, C: 120},
        {A: 120, B: 120, C: 120},
    ]
    assert elections(elected)[-1] == ("unclean", B)
    assert [world.truth.high_watermark(ORDERS) for world in (alone, elected)] == [201, 120]
    read = {
        client: max(n.last_offset for n in alone.truth.consumed if n.client == client) for client in ("early", "reader")
    }
    assert read == {"early": 150, "reader": 200}
    assert (told(back, "early"), told(back, "reader")) == (set(), {"OFFSET_OUT_OF_RANGE"})
    assert cuts(back) == [(A, 100, 201)]
    assert texts(back, A) == texts(back, B) == texts(back, C) == [f"order {n}" for n in (*range(100), *range(300, 320))]


def test_consumers_reset() -> None:
    first, last = (moment.world for moment in played("consumers-reset").moments)
    out_of_range = {client: told(last, client) for client in ("earliest", "latest", "never", "asleep", "fresh")}
    assert {client for client, errors in out_of_range.items() if errors} == {"earliest", "latest", "never"}

    def given(client: str) -> list[tuple[int, int]]:
        """First offset and epoch of the batches that a client got."""
        return [(n.base_offset, n.leader_epoch) for n in last.truth.consumed if n.client == client]

    new = {client: [offset for offset, epoch in given(client) if epoch == 2] for client in out_of_range}
    assert new["earliest"][0] == new["fresh"][0] == 100
    assert new["latest"][0] == 100
    assert {client: given(client).count((0, 0)) for client in ("earliest", "latest")} == {"earliest": 2, "latest": 1}
    assert new["never"] == []
    assert new["asleep"][0] == 201, "B's 100..200 are never read, and nobody said so"
    assert ends(first)[B] == 120
    assert ends(last)[B] == 320


def test_broken_transaction() -> None:
    half = at("broken-transaction", "half-lost")
    other = TopicPartition("orders", 1)
    assert (texts(half, A), texts(half, B)) == (["paid 1", "paid 2"], ["paid 1", "paid 3"])
    assert texts(half, C, other) == ["sent 1", "sent 2"]
    outcomes = [note.outcome for note in half.truth.transactions if isinstance(note, TransactionTold)]
    assert outcomes[-2:] == ["committed", "committed"]


def test_acks() -> None:
    away, back = (moment.world for moment in played("acks-0-1-all").moments)
    sent = [f"order {number}" for number in range(20)]
    topics = {name: TopicPartition(name, 0) for name in ("fire", "leader", "safe")}
    assert all(texts(away, A, partition) == sent for partition in topics.values())
    held = {name: texts(away, B, partition) for name, partition in topics.items()}
    assert held == {"fire": sent[:10], "leader": sent[:10], "safe": sent}
    acknowledged = {name: sum(n.last_offset - n.base_offset + 1 for n in away.truth.acknowledged if n.partition == p)
                    for name, p in topics.items()}  # fmt: skip
    assert acknowledged == {"fire": 0, "leader": 20, "safe": 20}
    for name, partition in topics.items():
        assert texts(back, A, partition) == texts(back, C, partition) == held[name]


def test_pid_1234() -> None:
    before, away, back = (moment.world for moment in played("pid-1234").moments)
    assert ends(before) == {A: 110, B: 110, C: 110}
    assert 100 not in {note.base_sequence for note in before.truth.acknowledged}
    assert {n.base_sequence: n.base_offset for n in away.truth.acknowledged} == {n: n for n in range(0, 120, 10)}
    assert ends(away) == {A: 110, B: 120, C: 120}
    own = [b for b in batches(back, A) if b.producer_id == 1234]
    assert [(b.producer_epoch, b.base_sequence) for b in own] == [*((1, n) for n in range(0, 120, 10)), (2, 0)]
    assert told(back, "late") == {"INVALID_PRODUCER_EPOCH"}
    assert cuts(back) == []
    assert batches(back, A) == batches(back, B) == batches(back, C)


def test_two_brokers() -> None:
    dead, back = at("two-brokers-m2", "b-is-dead"), at("two-brokers-m2", "b-is-back")
    assert cuts(dead) == [(A, 1, 2)]
    assert (texts(back, A), texts(back, B)) == (["m1", "m3"], ["m1", "m2"])
    kept = at("two-brokers-m2-kip-101", "b-is-back")
    assert cuts(kept) == []
    assert texts(kept, A) == texts(kept, B) == ["m1", "m2", "m3"]


def test_compressed_sets() -> None:
    world = at("compressed-sets", "a-makes-no-progress")
    spans = {b: [(batch.base_offset, batch.last_offset + 1) for batch in batches(world, b)] for b in (A, B)}
    assert spans == {A: [(0, 1), (1, 5)], B: [(0, 1), (1, 3), (3, 6)]}
    assert {batch.codec for b in (A, B) for batch in batches(world, b)} == {CompressionType.GZIP}
    assert world.brokers[A].running is not None, "it runs, and asks for 5 again and again"


def test_max_in_flight() -> None:
    world = at("max-in-flight", "sent-again")
    held = {name: texts(world, A, TopicPartition(name, 0)) for name in ("plain", "single", "idempotent")}
    assert held == {"plain": ["M0", "M2", "M1"], "single": ["M0", "M1", "M2"], "idempotent": ["M0", "M1", "M2"]}


def test_a_scenarios_numbers_are_the_literatures() -> None:
    """What the five documents say in numbers stands in the files' words."""
    said = {scenario.name: re.sub(r"\s+", " ", scenario.text) for scenario in SHIPPED}
    for name, numbers in {
        "unclean-100-200": ("0..99", "100..200", "0..150"),
        "pid-1234": ("Producer 1234", "100..109", "110..119", "epoch 2"),
        "a-leads-again": ("M1", "M2", "M3", "M4", "epoch 2"),
        "two-brokers-m2": ("m1", "m2"),
    }.items():
        assert all(number in said[name] for number in numbers), name
