"""Elections that gave records up, as far as they are on record, and which of them are one series.

In: what the metadata log says of partitions. Out: `Elections`, to be asked for the one behind a breach or a loss, and
the first of each series. A controller answers one failure by one election after the other, so what happened within
seconds has one cause.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidegauge.expectations.incidents.model import Anchor, Election, Kind, Place
from tidegauge.expectations.verdicts import Breach
from tidegauge.relations import PartitionChangeRow

GAVE_RECORDS_UP: Final = ("unclean", "last_known")
"""Kinds of elections that may."""
_SERIES_GAP_MS: Final = 10_000
"""A controller makes its elections within moments of the failure that they answer; what comes later answers another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elections:
    """Elections on record, and which of them are one series."""

    of: Mapping[Place, tuple[Election, ...]]
    """By partition, in the order of the metadata log."""

    def named(self, breach: Breach) -> Election | None:
        """The election that a breach says is behind it."""
        offset = breach.subject.get("metadata_offset", breach.evidence.get("unclean_election_offset"))
        place = place_of(breach)
        if offset is None or place is None:
            return None
        on_record = next((e for e in self.of.get(place, ()) if e.metadata_offset == offset), None)
        if on_record is not None or breach.evidence.get("unclean_election_offset") != offset:
            return on_record
        return Election(
            topic=place[0],
            partition=place[1],
            metadata_offset=offset,
            at_ms=breach.evidence.get("unclean_election_at_ms"),
            election="unclean",
            leader_id=None,
            leader_epoch=breach.evidence.get("newer_epoch"),
            led_before=None,
        )

    def after(self, place: Place, leader_epoch: int | None) -> Election | None:
        """The first that could give up records of this epoch. Of an epoch that nobody tells: the only one there is."""
        on_record = self.of.get(place, ())
        if leader_epoch is None:
            return on_record[0] if len(on_record) == 1 else None
        return next((e for e in on_record if e.leader_epoch is not None and e.leader_epoch > leader_epoch), None)


def elections_on_record(changes: Iterable[PartitionChangeRow]) -> list[Election]:
    """The elections that may have given records up, out of all changes of their partitions."""
    led: dict[Place, int] = {}
    found = []
    for row in sorted(changes, key=lambda r: (r["topic"], r["partition"], r["topic_id"] or "", r["sequence_in_log"])):
        place = row["topic"], int(row["partition"])
        if row["election"] in GAVE_RECORDS_UP:
            found.append(
                Election(
                    topic=place[0],
                    partition=place[1],
                    metadata_offset=int(row["metadata_offset"]),
                    at_ms=row["at_ms"],
                    election=row["election"],
                    leader_id=row["leader_id"],
                    leader_epoch=row["leader_epoch"],
                    led_before=led.get(place),
                )
            )
        if row["leader_id"] is not None:
            led[place] = int(row["leader_id"])
    return found


def elections_by_place(elections: Iterable[Election]) -> Elections:
    """Elections, to be asked."""
    of: dict[Place, list[Election]] = {}
    for election in sorted(elections, key=lambda e: e.metadata_offset):
        of.setdefault((election.topic, election.partition), []).append(election)
    return Elections(of={place: tuple(several) for place, several in of.items()})


def series(elections: Iterable[Election]) -> Mapping[Election, Anchor]:
    """The anchor of each election: the first of its series."""
    found: dict[Election, Anchor] = {}
    first: Election | None = None
    last_ms: int | None = None
    for election in sorted(set(elections), key=lambda e: (e.at_ms or 0, e.metadata_offset, e.topic, e.partition)):
        together = (
            first is not None
            and last_ms is not None
            and election.at_ms is not None
            and election.at_ms - last_ms <= _SERIES_GAP_MS
        )
        first = first if together else election
        last_ms = election.at_ms
        assert first is not None
        place = (("metadata_offset", first.metadata_offset),)
        found[election] = Anchor(kind=Kind.ELECTION, cause="unclean_loss", place=place)
    return found


def place_of(breach: Breach) -> Place | None:
    """The partition that a breach is about."""
    topic, partition = breach.subject.get("topic"), breach.subject.get("partition")
    return (topic, int(partition)) if topic is not None and partition is not None else None
