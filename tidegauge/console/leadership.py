"""Who led a partition when, as a drawing: its rows of the metadata log in, stretches over a time axis out.

In: `partition_changes` in the order of the metadata log, and the instant at which the picture ends (the capture). Out:
one row of terms, coloured by leader epoch as the lineage is, one row for each broker with the times at which it was in
sync, and a mark for each election. Rows without an instant are in the table, not in the drawing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegauge.console.database import Row
from tidegauge.console.lineage import COLOURS

_WORDS = {
    "unclean": "unclean election: the new leader was neither in sync nor eligible",
    "elr": "elected from the eligible leader replicas",
    "clean": "clean election",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """From an instant up to another, in seconds of the epoch."""

    kind: str
    start: float
    end: float
    words: str
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """A leader was chosen."""

    kind: str
    at: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The whole drawing."""

    start: float
    end: float
    terms: Sequence[Period]
    in_sync: Mapping[int, Sequence[Period]]
    elections: Sequence[Election]

    def percent(self, at: float) -> float:
        """Where an instant lies, in percent of the width."""
        return round((at - self.start) * 100 / (self.end - self.start), 4)

    def width(self, period: Period) -> float:
        """How wide a period is, never too narrow to be seen."""
        return max(0.25, round((period.end - period.start) * 100 / (self.end - self.start), 4))


def leadership(changes: Sequence[Row], colours: Mapping[int, int], captured_at: datetime) -> Leadership | None:
    """The drawing, None where no change has an instant."""
    rows = [row for row in changes if row["at"] is not None and not row["topic_deleted"]]
    if not rows:
        return None
    start = rows[0]["at"].timestamp()
    last = rows[-1]["at"]
    # The last state lasts until the capture, but is never drawn so long that nothing is seen of what was before, nor
    # so short that it cannot be seen itself: a cluster's clock may run ahead of the capture's.
    history = max(60.0, last.timestamp() - start)
    end = min(max(captured_at.timestamp(), last.timestamp() + history / 10), last.timestamp() + history)
    ends = [row["at"].timestamp() for row in rows[1:]] + [end]
    return Leadership(
        start=start,
        end=end,
        terms=_joined(_term(row, until, colours) for row, until in zip(rows, ends, strict=True)),
        in_sync={
            broker: _joined(_membership(broker, row, until) for row, until in zip(rows, ends, strict=True))
            for broker in sorted({b for row in rows for b in (*(row["isr"] or ()), *(row["replicas"] or ()))})
        },
        elections=[_election(row) for row in rows if row["election"] not in (None, "none")],
    )


def _term(row: Row, until: float, colours: Mapping[int, int]) -> Period:
    leader, epoch = row["leader_id"], row["leader_epoch"]
    start = row["at"].timestamp()
    if leader is None:
        return Period(kind="no-leader", start=start, end=until, words="No leader", label="no leader")
    colour = colours.get(epoch, (epoch or 0) % COLOURS)
    return Period(
        kind=f"epoch-{colour}",
        start=start,
        end=until,
        label=f"broker {leader}, epoch {epoch}",
        words=f"Broker {leader} leads, leader epoch {epoch}",
    )


def _membership(broker: int, row: Row, until: float) -> Period | None:
    isr, elr = row["isr"] or (), row["elr"] or ()
    kind = "in-sync" if broker in isr else "eligible" if broker in elr else None
    if kind is None:
        return None
    words = f"Broker {broker} is {'in sync' if kind == 'in-sync' else 'an eligible leader replica'}"
    return Period(kind=kind, start=row["at"].timestamp(), end=until, words=words)


def _joined(periods: Iterable[Period | None]) -> Sequence[Period]:
    """Periods that say the same and touch are one."""
    result: list[Period] = []
    for period in periods:
        if period is None:
            continue
        before = result[-1] if result else None
        if before is not None and before.end == period.start and before.words == period.words:
            result[-1] = Period(
                kind=before.kind, start=before.start, end=period.end, words=before.words, label=before.label
            )
        else:
            result.append(period)
    return result


def _election(row: Row) -> Election:
    kind = row["election"]
    lines = [
        f"{_WORDS.get(kind, kind)}".capitalize(),
        f"{_leader(row['previous_leader_id'])} → {_leader(row['leader_id'])}, leader epoch {row['leader_epoch']}",
        f"ISR {row['previous_isr']} → {row['isr']}, offset {row['metadata_offset']:,} of the metadata log"
        if row["metadata_offset"] is not None
        else None,
        f"{row['records_at_stake']:,} records at stake" if row["records_at_stake"] else None,
    ]
    return Election(kind=kind, at=row["at"].timestamp(), words="\n".join(line for line in lines if line))


def _leader(broker: int | None) -> str:
    return "no leader" if broker is None else f"broker {broker}"
