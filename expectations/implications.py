"""The implications between invariants: which breach follows from which, as a graph.

In: the catalogue; each invariant names what its own breach implies (`Invariant.implies`). Out: for each code all that
follows from it, directly or through others, and a circle where there is one. The rule that must hold: no circle. A
breach follows from another of the same place only (`verdicts.fold`); what is said here is about kinds of breaches.
"""

from collections.abc import Mapping

from tidegauge.expectations.model import Invariant

Implied = Mapping[str, tuple[str, ...]]


def direct(catalogue: Mapping[str, Invariant]) -> Implied:
    """Code -> the codes that it names, those alone that the catalogue has."""
    return {code: tuple(c for c in invariant.implies if c in catalogue) for code, invariant in catalogue.items()}


def closure(implied: Implied) -> Implied:
    """Code -> all that follows from it, the nearest first."""
    return {code: _behind(code, implied) for code in implied}


def _behind(code: str, implied: Implied) -> tuple[str, ...]:
    found: dict[str, None] = {}
    waiting = list(implied[code])
    while waiting:
        nearest = waiting.pop(0)
        if nearest not in found and nearest != code:
            found[nearest] = None
            waiting += implied.get(nearest, ())
    return tuple(found)


def circle(implied: Implied) -> tuple[str, ...]:
    """Codes that each imply the next and the last the first; empty where there are none."""
    done: set[str] = set()
    for start in implied:
        path: list[str] = []
        if found := _circle_from(start, implied, done, path):
            return found
    return ()


def _circle_from(code: str, implied: Implied, done: set[str], path: list[str]) -> tuple[str, ...]:
    if code in path:
        return tuple(path[path.index(code) :])
    if code in done:
        return ()
    path.append(code)
    for behind in implied.get(code, ()):
        if found := _circle_from(behind, implied, done, path):
            return found
    path.pop()
    done.add(code)
    return ()
