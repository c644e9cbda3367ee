"""Snapshots that a command meets and that are dated in the future: claims in, words at once and a row in the store out.

Who runs an audit at night reads no standard error, and where `latest` passes such a snapshot over, the audit may end
well. The rules that must hold: what was met is kept in the store, from where `tidegauge alerts` tells it, however the
command ends; a store that cannot keep it changes nothing about how the command ends.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tidegauge.endings import progress
from tidegauge.runs.run import NO_STORE
from tidegauge.snapshots.catalogue import DatedAhead, passed_over
from tidegauge.snapshots.errors import AuditError

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Met:
    """What one command has met so far, each snapshot once. `say` is told of those that are only passed over."""

    say: Say = progress
    found: dict[tuple[str, str], DatedAhead] = field(default_factory=dict)

    def add(self, claim: DatedAhead) -> None:
        """One that is refused, by an error that tells it."""
        self.found.setdefault((claim.cluster, claim.snapshot_id), claim)

    def pass_over(self, claim: DatedAhead) -> None:
        """One that others are taken instead of."""
        self.add(claim)
        self.say(passed_over(claim))


@contextmanager
def kept(store: str | None, *, met_by: str, say: Say = progress) -> Iterator[Met]:
    """What is met meanwhile is in the store afterwards. `store`: its URL, None for the embedded one, or `NO_STORE`;
    `met_by`: the run directory, or the command.
    """
    met = Met(say)
    try:
        yield met
    finally:
        if met.found and store != NO_STORE:
            _keep(store, met, met_by)


def _keep(store: str | None, met: Met, met_by: str) -> None:
    from tidegauge.embedded.store_in_use import store_at
    from tidegauge.store import migrate, note_dated_ahead

    try:
        with store_at(store) as url:
            migrate(url)
            note_dated_ahead(url, met.found.values(), met_by=met_by)
    except AuditError as error:
        met.say(f"No alert tells of what is dated in the future, since the store could not keep it: {error}")
