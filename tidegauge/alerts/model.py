"""What an alert is, and what has been told of it.

In: nothing. Out: `Alert`, one incident, one cluster without a fresh audit, one whose name snapshots of another one
bear, one with snapshots of the future, or one risk; and `Told`. The rule that must hold: an alert
has one identity for as long as it lasts, whatever the runs that see it say anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

NO_FRESH_AUDIT: Final = "NoFreshAudit"
OTHER_CLUSTER: Final = "SnapshotOfAnotherCluster"
DATED_AHEAD: Final = "SnapshotDatedAhead"
REFUSALS: Final = frozenset({OTHER_CLUSTER, DATED_AHEAD})
"""Snapshots that were refused: such an alert lasts until somebody settles it."""
RISK: Final = "Risk"
INCIDENT: Final = "Incident"


class Word(StrEnum):
    """What is told of an alert."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, order=True)
class AlertKey:
    """Its identity: the cluster, the incident, and which of its openings; one that comes back is a new alert."""

    cluster: str
    name: str
    """The incident's id, the risk's, the other cluster's, `dated-ahead`, or `NO_FRESH_AUDIT`."""
    opening: str
    """The number of the opening; for a stale cluster the instant of its newest snapshot; for an incident with losses
    also when one last grew or got worse, and how often one was opened again.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that somebody should look at, or no longer need to."""

    key: AlertKey
    severity: str
    name: str
    """`INCIDENT`, `NO_FRESH_AUDIT`, one of `REFUSALS`, or `RISK`."""
    subject: Mapping[str, str]
    explanation: tuple[str, ...]
    """The argument, a line each."""
    records: int | None = None
    next: str = ""
    began_at: datetime
    resolved_at: datetime | None = None
    acknowledged: bool = False
    risk: str = ""
    """Of a risk: `now`, or how much has to fail for it, `single` or `double`."""
    headline: str = ""
    """Of an incident: its sentence."""

    @property
    def word(self) -> Word:
        """What there is to tell of it now."""
        return Word.RESOLVED if self.resolved_at is not None else Word.FIRING

    @property
    def where(self) -> str:
        """The subject in a few words."""
        rest = dict(self.subject)
        topic, partition = rest.pop("topic", None), rest.pop("partition", None)
        words = [f"{topic}-{partition}" if partition is not None else topic] if topic is not None else []
        words += [f"{name.removesuffix('_id').replace('_', ' ')} {value}" for name, value in rest.items()]
        return ", ".join(words)

    @property
    def title(self) -> str:
        """One line: what, where, in which cluster."""
        what = self.headline or self.name
        where = f" {self.where}" if self.where else ""
        return f"{what}{where} ({self.key.cluster})"


@dataclass(frozen=True, slots=True)
class Told:
    """A channel was told this of an alert."""

    channel: str
    key: AlertKey
    word: Word
