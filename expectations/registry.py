"""The catalogue: every invariant by its code, in code order.

In: the folders of `expectations.invariants`. Out: `CATALOGUE`, the same by relation, and `RULESET_VERSION`. A code
names one invariant, for ever; a change that may change a verdict changes `RULESET_VERSION`, so that runs under old and
new rules stand side by side.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Final

from tidegauge.expectations import invariants
from tidegauge.expectations.model import Invariant

RULESET_VERSION: Final = "10"

_FOLDER: Final = re.compile(r"[A-Z][0-9]{2}_\w+")


def folder_name(code: str, name: str) -> str:
    """What an invariant's folder is called."""
    return f"{code}_{name}"


def found_in(package: ModuleType) -> Mapping[str, Invariant]:
    """Code -> the invariant of each folder of a package, in code order. Raises what its module raises."""
    catalogue: dict[str, Invariant] = {}
    for folder in sorted(_folders(package)):
        invariant: Invariant = import_module(f"{package.__name__}.{folder}.invariant").INVARIANT
        named = folder_name(invariant.code, invariant.name)
        assert folder == named, f"the folder {folder} holds {named}"
        assert invariant.code not in catalogue, f"two invariants have the code {invariant.code}"
        catalogue[invariant.code] = invariant
    return MappingProxyType(catalogue)


def _folders(package: ModuleType) -> Iterator[str]:
    # A folder that git has emptied may stay behind, with bytecode in it.
    for place in package.__path__:
        yield from (
            entry.name
            for entry in os.scandir(place)
            if _FOLDER.fullmatch(entry.name) and os.path.exists(f"{entry.path}/invariant.py")
        )


CATALOGUE: Final = found_in(invariants)


def by_relation(invariants: Iterable[Invariant]) -> Mapping[str, Sequence[Invariant]]:
    """Relation -> its invariants, both in a fixed order."""
    members: dict[str, list[Invariant]] = {}
    for invariant in sorted(invariants, key=lambda i: (i.relation, i.code)):
        members.setdefault(invariant.relation, []).append(invariant)
    return members
