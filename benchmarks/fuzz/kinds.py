"""What a kind of input is, and how one of its inputs comes about."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of input.

    `make` gives the input of a generator. `read` reads it, and whatever it raises is a finding. Where `together` is
    more than one it reads so many at once, by their numbers, and returns number -> finding. `keep` writes an input to a
    path for whoever looks into it.
    """

    name: str
    make: Callable[[Random], Any]
    read: Callable[[Any], Any]
    keep: Callable[[Any, str], object]
    together: int = 1
    own_processes: bool = False
    """Whether the reading is done by processes of its own, which a limit of memory would keep from starting."""


def generator(kind: str, seed: str, number: int) -> Random:
    """Where an input's damage comes from: the kind, a seed, a number, and nothing else."""
    return Random(f"{seed} {kind} {number}")
