"""The lineage of a partition as a drawing: facts in, bands, marks and tracks over the offset axis out.

    band     one replica: a span for each leader epoch it holds, marks for its offsets, hatches for what is disputed
    track    what lies under the bands: transactions in lanes, breaks in producers' sequences
    focus    a stretch worth a closer look, to be jumped to

No markup and no pixel here: every place is an offset, and `Axis.percent` turns it into a share of the width. The rules
that must hold: what is not known is not drawn; nothing is drawn that a row does not say; every mark has words.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidegauge.console.database import Row

COLOURS: Final = 8
"""Epochs take one colour after the other, so that neighbours differ."""

MOST_TRANSACTIONS: Final = 300
"""Drawn of a partition: those that are open first, then the latest. The figure to download has all of them."""

_LANES: Final = 4
_TICKS: Final = 6
_NARROWEST: Final = 0.25
"""Percent of the width below which a span would not be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The offsets from the lowest log start to the highest log end."""

    low: int
    high: int

    def percent(self, offset: int) -> float:
        """Where an offset lies, in percent of the width."""
        return round((offset - self.low) * 100 / (self.high - self.low), 4)

    def width(self, start: int, end: int) -> float:
        """How wide a stretch is, never too narrow to be seen."""
        return max(_NARROWEST, round((end - start) * 100 / (self.high - self.low), 4))

    @property
    def ticks(self) -> Sequence[int]:
        """Round offsets along the axis."""
        rough = (self.high - self.low) / _TICKS
        power = 10 ** math.floor(math.log10(max(1.0, rough)))
        step = max(1, int(next(m * power for m in (1, 2, 5, 10) if m * power >= rough)))
        first = -(-self.low // step) * step
        return range(first, self.high + 1, step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Something from an offset up to another: `kind` is how it looks, `words` what it is."""

    kind: str
    start: int
    end: int
    words: str
    label: str = ""
    lane: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something at one offset."""

    kind: str
    offset: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One replica."""

    broker_id: int
    title: str
    role: str
    summary: str
    spans: Sequence[Stretch]
    hatches: Sequence[Stretch]
    marks: Sequence[Mark]


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """A stretch worth a closer look."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The whole drawing."""

    axis: Axis
    epochs: Sequence[tuple[int, int]]
    """Leader epoch and its colour's number."""
    bands: Sequence[Band]
    transactions: Sequence[Stretch] = ()
    transactions_left_out: int = 0
    gaps: Sequence[Mark] = ()
    focuses: Sequence[Focus] = field(default=())

    @property
    def lanes(self) -> int:
        """How many lanes the transactions take."""
        return max((t.lane for t in self.transactions), default=-1) + 1


def lineage(
    *,
    replicas: Sequence[Row],
    spans: Sequence[Row],
    divergences: Sequence[Row],
    losses: Sequence[Row],
    transactions: Sequence[Row],
    gaps: Sequence[Row],
) -> Lineage | None:
    """The drawing of one partition, None where no replica's offsets are known."""
    axis = _axis(replicas, spans)
    if axis is None:
        return None
    epochs = sorted({row["leader_epoch"] for row in spans if row["leader_epoch"] is not None})
    colours = {epoch: at % COLOURS for at, epoch in enumerate(epochs)}
    bands = [_band(row, spans, divergences, losses, colours) for row in sorted(replicas, key=_leader_first)]
    drawn = sorted(transactions, key=_open_first)[:MOST_TRANSACTIONS]
    return Lineage(
        axis=axis,
        epochs=tuple(colours.items()),
        bands=bands,
        transactions=tuple(_lanes(_transactions(drawn, axis))),
        transactions_left_out=len(transactions) - len(drawn),
        gaps=tuple(_gaps(gaps)),
        focuses=tuple(_focuses(axis, bands)),
    )


def _axis(replicas: Iterable[Row], spans: Iterable[Row]) -> Axis | None:
    lows = [row["log_start_offset"] for row in replicas] + [row["start_offset"] for row in spans]
    highs = [row["log_end_offset"] for row in replicas] + [row["end_offset"] for row in spans]
    known_lows, known_highs = [o for o in lows if o is not None], [o for o in highs if o is not None]
    if not known_lows or not known_highs:
        return None
    low, high = min(known_lows), max(known_highs)
    return Axis(low=low, high=max(high, low + 1))


def _leader_first(row: Row) -> tuple[bool, bool, int]:
    return (not row["is_leader"], bool(row["is_future"]), row["broker_id"])


def _band(
    row: Row, spans: Iterable[Row], divergences: Iterable[Row], losses: Iterable[Row], colours: dict[int, int]
) -> Band:
    broker = row["broker_id"]
    own = [] if row["is_future"] else sorted((s for s in spans if s["broker_id"] == broker), key=_by_start)
    role = _role(row)
    return Band(
        broker_id=broker,
        title=f"Broker {broker}",
        role=role,
        summary=_summary(row),
        spans=[
            Stretch(
                kind=f"epoch-{colours[s['leader_epoch']]}",
                start=s["start_offset"],
                end=s["end_offset"],
                label=f"epoch {s['leader_epoch']}",
                words=_lines(
                    f"Leader epoch {s['leader_epoch']} on broker {broker}",
                    f"offsets {_range(s['start_offset'], s['end_offset'])}",
                    f"{_count(s['batch_count'], 'batch', 'batches')}",
                    f"led by broker {s['elected_leader_id']}" if s["elected_leader_id"] is not None else None,
                ),
            )
            for s in own
            if s["leader_epoch"] is not None and s["start_offset"] is not None and s["end_offset"] is not None
        ],
        hatches=[] if row["is_future"] else [*_diverged(row, divergences), *_lost(row, losses)],
        marks=[
            Mark(kind=kind, offset=row[column], words=f"{name} {row[column]:,} on broker {broker}")
            for kind, name, column in _MARKS
            if row[column] is not None
        ],
    )


_MARKS: Final = (
    ("log-start", "Log start offset", "log_start_offset"),
    ("log-end", "Log end offset", "log_end_offset"),
    ("high-watermark", "High watermark (as checkpointed)", "high_watermark"),
    ("last-stable", "Last stable offset", "last_stable_offset"),
)


def _by_start(span: Row) -> tuple[int, int]:
    return (span["start_offset"] if span["start_offset"] is not None else -1, span["leader_epoch"] or 0)


def _role(row: Row) -> str:
    if row["is_future"]:
        return "future replica, on its way between log dirs"
    if row["is_leader"]:
        return "leader"
    words = [
        "in sync" if row["in_isr"] else "out of sync" if row["in_isr"] is not None else "ISR not known",
        "eligible leader" if row["in_elr"] else None,
        "not assigned" if row["assigned"] is False else None,
    ]
    return ", ".join(word for word in words if word)


def _summary(row: Row) -> str:
    parts = [
        _range(row["log_start_offset"], row["log_end_offset"]),
        None if row["high_watermark"] is None else f"high watermark {row['high_watermark']:,}",
        None if row["last_stable_offset"] is None else f"last stable {row['last_stable_offset']:,}",
    ]
    return ", ".join(part for part in parts if part)


def _diverged(row: Row, divergences: Iterable[Row]) -> Iterator[Stretch]:
    for d in divergences:
        if d["follower_id"] != row["broker_id"] or not d["records_at_stake"] or d["divergence_offset"] is None:
            continue
        if d["only_end_differs"]:
            continue  # Read later, it may soundly be longer: no invariant knows that it diverged.
        end = d["follower_log_end_offset"] if d["follower_log_end_offset"] is not None else row["log_end_offset"]
        if end is not None and end > d["divergence_offset"]:
            yield Stretch(
                kind="diverged",
                start=d["divergence_offset"],
                end=end,
                words=_lines(
                    f"Broker {row['broker_id']} leaves the lineage of broker {d['leader_id']} "
                    f"at {d['divergence_offset']:,}",
                    f"Kafka will truncate offsets {_range(d['divergence_offset'], end)} when it rejoins",
                    f"{_count(d['records_at_stake'], 'record', 'records')} at stake"
                    + (f", {d['declared_committed']:,} declared committed" if d["declared_committed"] else ""),
                ),
            )


def _lost(row: Row, losses: Iterable[Row]) -> Iterator[Stretch]:
    """A loss is hatched where its records still are, and, when they are nowhere, on every replica."""
    for loss in losses:
        if row["broker_id"] in loss["held_by"] or not loss["held_by"]:
            held = ", ".join(str(b) for b in loss["held_by"])
            yield Stretch(
                kind="lost" if loss["state"] == "lost" else "at-risk",
                start=loss["start_offset"],
                end=loss["end_offset"],
                words=_lines(
                    f"{_count(loss['records'], 'record', 'records')} {loss['state'].replace('_', ' ')}, "
                    f"offsets {_range(loss['start_offset'], loss['end_offset'])}",
                    f"on the disk of broker {held} only" if held else "on no replica any more",
                    loss["cause"],
                ),
            )


def _open_first(row: Row) -> tuple[bool, int]:
    return (row["outcome"] != "open", -(row["first_offset"] or 0))


def _transactions(rows: Iterable[Row], axis: Axis) -> Iterator[Stretch]:
    for row in rows:
        if row["first_offset"] is None:
            continue
        is_open = row["outcome"] == "open"
        last = row["marker_offset"] if row["marker_offset"] is not None else row["last_offset"]
        end = axis.high if is_open else (last if last is not None else row["first_offset"]) + 1
        owner = row["transactional_id"] if row["transactional_id"] is not None else f"producer {row['producer_id']}"
        yield Stretch(
            kind="hanging" if row["hanging"] else row["outcome"],
            start=row["first_offset"],
            end=max(end, row["first_offset"] + 1),
            words=_lines(
                f"Transaction of {owner}: {'hanging' if row['hanging'] else row['outcome']}",
                f"producer {row['producer_id']}, epoch {row['producer_epoch']}",
                f"first offset {row['first_offset']:,}"
                + (f", end marker {row['marker_offset']:,}" if row["marker_offset"] is not None else ", no end marker"),
            ),
        )


def _lanes(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """Puts stretches that overlap under one another, as far as there are lanes; then they overlap in the last one."""
    ends = [-1] * _LANES
    for stretch in sorted(stretches, key=lambda s: (s.start, -s.end)):
        lane = next((at for at, end in enumerate(ends) if end <= stretch.start), _LANES - 1)
        ends[lane] = max(ends[lane], stretch.end)
        yield Stretch(kind=stretch.kind, start=stretch.start, end=stretch.end, words=stretch.words, lane=lane)


def _gaps(rows: Iterable[Row]) -> Iterator[Mark]:
    for row in rows:
        if row["offset"] is not None:
            yield Mark(
                kind="lost-gap" if row["cause"] == "lost" else "gap",
                offset=row["offset"],
                words=_lines(
                    f"Producer {row['producer_id']}, epoch {row['producer_epoch']}, on broker {row['broker_id']}: "
                    f"sequence {row['found_sequence']} where {row['expected_sequence']} was next",
                    f"offset {row['offset']:,}; cause: {row['cause']}",
                ),
            )


def _focuses(axis: Axis, bands: Iterable[Band]) -> Iterator[Focus]:
    seen: set[tuple[int, int]] = set()
    for hatch in (h for band in bands for h in band.hatches):
        if (hatch.start, hatch.end) in seen:
            continue
        seen.add((hatch.start, hatch.end))
        margin = max(1, (hatch.end - hatch.start) // 5)
        name = {"diverged": "Divergence", "at-risk": "At risk", "lost": "Lost"}[hatch.kind]
        yield Focus(
            name=f"{name} {_range(hatch.start, hatch.end)}",
            start=max(axis.low, hatch.start - margin),
            end=min(axis.high, hatch.end + margin),
        )
    tail = max(1, (axis.high - axis.low) // 50)
    if axis.high - axis.low > 50:
        yield Focus(name="Log end", start=axis.high - tail, end=axis.high)


def _range(start: int | None, end: int | None) -> str:
    return f"[{'?' if start is None else f'{start:,}'}, {'?' if end is None else f'{end:,}'})"


def _count(number: Any, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}" if number is not None else f"{many} not counted"


def _lines(*parts: str | None) -> str:
    return "\n".join(part for part in parts if part)
