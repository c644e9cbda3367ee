"""The implications between invariants: which breach follows from which, as a graph.

In: the catalogue; each invariant names what its own breach implies (`Invariant.implies`). Out: for each code all that
follows from it, directly or through others. The rule that must hold: no circle. A breach follows from another of the
same place only (`verdicts.fold`); what is said here is about kinds of breaches.
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
