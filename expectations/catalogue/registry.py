"""The catalogue: every invariant by its code, in code order.

In: the family modules. Out: `CATALOGUE`, the same by relation, and `RULESET_VERSION`. The rule that must hold: a code
names one invariant, for ever; a change that may change a verdict changes `RULESET_VERSION`, so that runs under old and
new rules stand side by side.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Final

from expectations.catalogue.model import Invariant

RULESET_VERSION: Final = "9"

MODULES: Final = (
    "batches",
    "records",
    "files",
    "log_dirs",
    "indexes",
    "snapshots",
    "checkpoints",
    "offsets",
    "retention",
    "history",
    "replicas",
    "divergences",
    "isr_members",
    "durability",
    "producers",
    "transactions",
    "compaction",
    "cleaning",
    "remote_tier",
    "producer_states",
    "transaction_ends",
    "coordinator_logs",
    "commits",
    "share_groups",
    "groups",
    "metadata",
    "partition_history",
    "metadata_log",
    "brokers",
    "answers",
)


def _invariants() -> Iterator[Invariant]:
    for name in MODULES:
        module = import_module(f"expectations.catalogue.{name}")
        yield from (value for value in vars(module).values() if isinstance(value, Invariant))


def _by_code(invariants: Iterable[Invariant]) -> Mapping[str, Invariant]:
    catalogue: dict[str, Invariant] = {}
    for invariant in sorted(invariants, key=lambda one: one.code):
        assert invariant.code not in catalogue, f"two invariants have the code {invariant.code}"
        catalogue[invariant.code] = invariant
    return MappingProxyType(catalogue)


CATALOGUE: Final = _by_code(_invariants())


def by_relation(invariants: Iterable[Invariant]) -> Mapping[str, Sequence[Invariant]]:
    """Relation -> its invariants, both in a fixed order."""
    members: dict[str, list[Invariant]] = {}
    for invariant in sorted(invariants, key=lambda i: (i.relation, i.code)):
        members.setdefault(invariant.relation, []).append(invariant)
    return members
