"""The graph of implications: of what exists, without a circle, and what follows through others follows too."""

from expectations.catalogue.registry import CATALOGUE
from expectations.implications import circle, closure, direct


def test_every_invariant_implies_invariants_that_there_are() -> None:
    assert {c for i in CATALOGUE.values() for c in i.implies} <= CATALOGUE.keys()
    assert not [code for code, i in CATALOGUE.items() if code in i.implies]


def test_nothing_follows_from_what_follows_from_it() -> None:
    assert circle(direct(CATALOGUE)) == ()


def test_a_circle_is_found_wherever_it_hangs() -> None:
    graph = {"a": ("b",), "b": ("c", "d"), "c": (), "d": ("e",), "e": ("b",)}
    assert circle(graph) == ("b", "d", "e")
    assert circle({**graph, "e": ()}) == ()


def test_what_follows_through_others_follows() -> None:
    graph = {"a": ("b",), "b": ("c", "d"), "c": ("d",), "d": ()}
    assert closure(graph) == {"a": ("b", "c", "d"), "b": ("c", "d"), "c": ("d",), "d": ()}
