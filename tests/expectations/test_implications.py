"""The graph of implications: of what exists, without a circle, and what follows through others follows too."""

from graphlib import TopologicalSorter

from tidegauge.expectations.implications import closure, direct
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import subject_columns


def test_every_invariant_implies_invariants_that_there_are() -> None:
    assert {c for i in CATALOGUE.values() for c in i.implies} <= CATALOGUE.keys()
    assert not [code for code, i in CATALOGUE.items() if code in i.implies]


def test_what_follows_is_of_a_place_that_can_be_the_same() -> None:
    place = {
        code: tuple(column in subject_columns(invariant) for column in ("topic", "partition"))
        for code, invariant in CATALOGUE.items()
    }
    assert [(c, implied) for c, i in CATALOGUE.items() for implied in i.implies if place[c] != place[implied]] == []


def test_nothing_follows_from_what_follows_from_it() -> None:
    TopologicalSorter(direct(CATALOGUE)).prepare()  # Raises CycleError, which names the circle.


def test_what_follows_through_others_follows() -> None:
    graph = {"a": ("b",), "b": ("c", "d"), "c": ("d",), "d": ()}
    assert closure(graph) == {"a": ("b", "c", "d"), "b": ("c", "d"), "c": ("d",), "d": ()}
