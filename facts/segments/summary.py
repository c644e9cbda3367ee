"""The segment summary: what one stretch of a replica's log says, small and mergeable.

In: what the fold (`fold`) saw. Out: a `SegmentSummary`. The rule that must hold:
`merge` is associative over adjacent stretches and `merge(summary(a), summary(b))` equals `summary(a + b)`, so a sealed
segment is read once, wherever its bytes are, and a replica's facts are the merge of its segments' summaries.

    epoch runs     leader epoch -> where it starts and ends            (D01, D04, D05, B14, B15)
    events         per producer: runs of data, and end markers         (E*, F*, B06, B11, last stable offset)
    gaps           breaks in a producer's sequences                    (E01)
    buckets        a digest per 4096 offsets, whatever the segments    (D02, D03, D07)
    findings       the first places where a rule of family A breaks    (A04..A09, A13, D01)

A producer's data batches are folded into one run as long as epoch and transactional flag stay and its sequences rise; a
gap in them is counted on the run and listed; anything that goes back (duplicate, overlap) begins a new run, which the
replay of `producers` then names. Sequences wrap from 2147483647 to 0 (DefaultRecordBatch#incrementSequence). A batch
whose checksum is wrong is no event: what its header says of a producer is as doubtful as its records, and what is
missing because of it the replay knows by its offsets.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final, TypedDict, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tidegauge.facts.bounds import within

BUCKET_OFFSETS: Final = 4096
"""Offsets a digest bucket covers."""
BUCKET_SHIFT: Final = 12

OFFSET_ORDER, RECORD_COUNT, CONTROL_BATCH, PRODUCER_FIELDS, EPOCH_MISSING, EPOCH_ORDER, OFFSET_GAP, SHORT_BATCH = range(
    8
)
FINDING_KINDS: Final = (
    "offset_order",
    "record_count",
    "control_batch",
    "producer_fields",
    "epoch_missing",
    "epoch_order",
    "offset_gap",
    "short_batch",
)
"""What the fold itself can find wrong, or only explainable by cleaning (`offset_gap`, `short_batch`), by number."""
FINDINGS_KEPT: Final = 50
GAPS_KEPT: Final = 200

NONE: Final = -1
"""No offset, epoch, sequence or producer: what the compiled fold has for None."""
RUN: Final = 0
MARKER: Final = 1
ABORT: Final = 0
COMMIT: Final = 1
UNREADABLE: Final = -2
"""Type of an end marker whose record cannot be decoded: it ended a transaction, and nobody can say how."""
ROTTEN: Final = -3
"""Type of one whose checksum is wrong: whose it is, too, is only what the damaged bytes say."""

NEWEST_FORMAT: Final = 2

SEQUENCE_MASK: Final = 0x7FFFFFFF
FORWARD_LIMIT: Final = 1 << 30
"""A sequence less than this far ahead (mod 2^31) is a gap; else the producer went back."""

EPOCH_RUN: Final = np.dtype(
    [
        ("leader_epoch", "i4"),
        ("start_offset", "i8"),
        ("end_offset", "i8"),
        ("batches", "i8"),
        ("records", "i8"),
        # The batch that begins the run, for what a merge finds at its boundary.
        ("first_batch_position", "i8"),
        ("first_batch_end_position", "i8"),
        ("first_batch_end_offset", "i8"),
    ]
)


def _dtype_of(kind: type) -> np.dtype[np.void]:
    """The fields of a class as a record of numpy, each as its annotation says."""
    hints = get_type_hints(kind, include_extras=True)
    return np.dtype([(name, hint.__metadata__[0]) for name, hint in hints.items()])


class Event(TypedDict):
    """A producer's batches in a row, or an end marker: one record of `SummaryFold`'s events."""

    producer_id: Annotated[int, "i8"]
    kind: Annotated[int, "i1"]
    transactional: Annotated[int, "i1"]
    marker_type: Annotated[int, "i2"]
    producer_epoch: Annotated[int, "i4"]
    coordinator_epoch: Annotated[int, "i4"]
    first_sequence: Annotated[int, "i4"]
    last_sequence: Annotated[int, "i4"]
    first_offset: Annotated[int, "i8"]
    last_offset: Annotated[int, "i8"]
    first_timestamp: Annotated[int, "i8"]
    last_timestamp: Annotated[int, "i8"]
    last_offset_delta: Annotated[int, "i4"]
    gaps: Annotated[int, "i4"]
    missing_sequences: Annotated[int, "i8"]
    batches: Annotated[int, "i8"]
    records: Annotated[int, "i8"]
    # Where the run's first batch ends: it repeats what was written, or goes on past it (E04, E05).
    first_batch_last_sequence: Annotated[int, "i4"]
    # How the run's first batch looks, and its last five, the newest first; 0 where there is none (E06).
    first_look: Annotated[int, "u4"]
    look_0: Annotated[int, "u4"]
    look_1: Annotated[int, "u4"]
    look_2: Annotated[int, "u4"]
    look_3: Annotated[int, "u4"]
    look_4: Annotated[int, "u4"]


class Gap(TypedDict):
    """A forward gap in the sequences of a producer's batches in a row."""

    producer_id: Annotated[int, "i8"]
    producer_epoch: Annotated[int, "i4"]
    expected_sequence: Annotated[int, "i4"]
    found_sequence: Annotated[int, "i4"]
    offset: Annotated[int, "i8"]
    previous_offset: Annotated[int, "i8"]
    previous_timestamp: Annotated[int, "i8"]
    timestamp: Annotated[int, "i8"]


EVENT: Final = _dtype_of(Event)
LOOKS: Final = ("look_0", "look_1", "look_2", "look_3", "look_4")
GAP: Final = _dtype_of(Gap)
BUCKET: Final = np.dtype(
    [("bucket", "i8"), ("digest", "u8"), ("batches", "i8"), ("first_offset", "i8"), ("end_offset", "i8")]
)
FINDING: Final = np.dtype(
    [
        ("kind", "i1"),
        ("position", "i8"),
        ("end_position", "i8"),
        ("start_offset", "i8"),
        ("end_offset", "i8"),
        ("records", "i8"),
        ("before", "i8"),
        ("found", "i8"),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SegmentSummary:
    """Facts of one stretch of a log. Offsets are -1 where there is no batch; `counts` follows `FINDING_KINDS`.

    The first batch's place and the end of the last one say whether the next stretch follows without a damaged place.
    """

    batch_count: int
    record_count: int
    data_record_count: int
    first_offset: int
    last_offset: int
    first_position: int
    first_batch_end_position: int
    first_batch_last_offset: int
    end_position: int
    last_good_offset: int
    max_timestamp_ms: int
    first_leader_epoch: int
    last_leader_epoch: int
    crc_errors: int
    magic_errors: int
    """Batches of format 2 by their checksum, whose magic says something else."""
    older_batches: int
    """Entries of message formats 0 and 1."""
    first_format: int
    first_format_offset: int
    last_format: int
    """Of sound batches, those aside that a cleaner may have written anew."""
    format_falls: int
    """How often a batch is of an older format than the one before it; and where first."""
    format_fall_offset: int
    rewritten_batches: int
    """Batches of format 2 without a leader epoch behind one of format 0 or 1 and before one of format 2 that has an
    epoch: a cleaner wrote them anew."""
    epochless_first: int
    """The same before any batch that tells whether it may be so."""
    cleaned_batches: int
    missing_offsets: int
    largest_producer_id: int
    last_batch_crc_bad: bool
    counts: tuple[int, ...]
    epoch_runs: NDArray[Any]
    events: NDArray[Any]
    gaps: NDArray[Any]
    buckets: NDArray[Any]
    findings: NDArray[Any]

    def count(self, kind: str) -> int:
        """Exact number of findings of a kind."""
        return self.counts[FINDING_KINDS.index(kind)]

    @property
    def begins_at(self) -> int | None:
        """Its first batch's base offset, a damaged one below 0 as well; None without a batch."""
        return self.first_offset if self.batch_count else None


def empty_summary() -> SegmentSummary:
    """The neutral element of `merge`."""
    return SegmentSummary(
        batch_count=0,
        record_count=0,
        data_record_count=0,
        first_offset=NONE,
        last_offset=NONE,
        first_position=NONE,
        first_batch_end_position=NONE,
        first_batch_last_offset=NONE,
        end_position=NONE,
        last_good_offset=NONE,
        max_timestamp_ms=NONE,
        first_leader_epoch=NONE,
        last_leader_epoch=NONE,
        crc_errors=0,
        magic_errors=0,
        older_batches=0,
        first_format=NONE,
        first_format_offset=NONE,
        last_format=NONE,
        format_falls=0,
        format_fall_offset=NONE,
        rewritten_batches=0,
        epochless_first=0,
        cleaned_batches=0,
        missing_offsets=0,
        largest_producer_id=NONE,
        last_batch_crc_bad=False,
        counts=(0,) * len(FINDING_KINDS),
        epoch_runs=np.zeros(0, dtype=EPOCH_RUN),
        events=np.zeros(0, dtype=EVENT),
        gaps=np.zeros(0, dtype=GAP),
        buckets=np.zeros(0, dtype=BUCKET),
        findings=np.zeros(0, dtype=FINDING),
    )


def merge(left: SegmentSummary, right: SegmentSummary, *, ignore_sequences: bool = False) -> SegmentSummary:
    """The summary of two adjacent stretches, `left` before `right`. Associative; `empty_summary()` is neutral."""
    if left.batch_count == 0:
        return right
    if right.batch_count == 0:
        return left
    boundary, missing = _boundary_findings(left, right)
    counts = [a + b for a, b in zip(left.counts, right.counts, strict=True)]
    for finding in boundary:
        counts[int(finding["kind"])] += 1
    events, boundary_gaps = _joined_events(left.events, right.events, ignore_sequences=ignore_sequences)
    return SegmentSummary(
        batch_count=left.batch_count + right.batch_count,
        record_count=left.record_count + right.record_count,
        data_record_count=left.data_record_count + right.data_record_count,
        first_offset=left.first_offset,
        last_offset=right.last_offset,
        first_position=left.first_position,
        first_batch_end_position=left.first_batch_end_position,
        first_batch_last_offset=left.first_batch_last_offset,
        end_position=right.end_position,
        last_good_offset=right.last_good_offset if right.last_good_offset != NONE else left.last_good_offset,
        max_timestamp_ms=max(left.max_timestamp_ms, right.max_timestamp_ms),
        first_leader_epoch=left.first_leader_epoch if left.first_leader_epoch != NONE else right.first_leader_epoch,
        last_leader_epoch=right.last_leader_epoch if right.last_leader_epoch != NONE else left.last_leader_epoch,
        crc_errors=left.crc_errors + right.crc_errors,
        magic_errors=left.magic_errors + right.magic_errors,
        older_batches=left.older_batches + right.older_batches,
        **_joined_formats(left, right),
        cleaned_batches=left.cleaned_batches + right.cleaned_batches,
        missing_offsets=left.missing_offsets + right.missing_offsets + missing,
        largest_producer_id=max(left.largest_producer_id, right.largest_producer_id),
        last_batch_crc_bad=right.last_batch_crc_bad,
        counts=tuple(counts),
        epoch_runs=_joined_epoch_runs(left.epoch_runs, right.epoch_runs),
        events=events,
        gaps=_first(np.concatenate([left.gaps, right.gaps, boundary_gaps]), "offset", GAPS_KEPT),
        buckets=by_bucket(np.concatenate([left.buckets, right.buckets])),
        findings=_kept_findings(np.concatenate([left.findings, boundary, right.findings])),
    )


def _boundary_findings(left: SegmentSummary, right: SegmentSummary) -> tuple[NDArray[Any], int]:
    """What the last batch of one stretch and the first of the next say together."""
    found: list[tuple[int, int, int, int, int, int, int, int]] = []
    missing = 0
    first, last = right.first_offset, left.last_offset
    place = (right.first_position, right.first_batch_end_position)
    end = right.first_batch_last_offset + 1
    if left.last_batch_crc_bad:
        pass  # Where a batch with a wrong checksum ends is not known.
    elif first <= last:
        found.append((OFFSET_ORDER, *place, first, end, end - first, last, first))
    elif first > last + 1 and right.first_position in (0, left.end_position):
        # A first batch that stands anywhere else follows a damaged place; the gap is the damage's, not a lost batch's.
        missing = first - last - 1
        found.append((OFFSET_GAP, *place, last + 1, first, within(missing), last, first))
    if NONE < right.first_leader_epoch < left.last_leader_epoch:
        run = right.epoch_runs[0]
        place = (int(run["first_batch_position"]), int(run["first_batch_end_position"]))
        start, end = int(run["start_offset"]), int(run["first_batch_end_offset"])
        epochs = (left.last_leader_epoch, right.first_leader_epoch)
        found.append((EPOCH_ORDER, *place, start, end, end - start, *epochs))
    return np.array(found, dtype=FINDING), missing


def _joined_formats(left: SegmentSummary, right: SegmentSummary) -> dict[str, int]:
    """What is kept of message formats: a fall at the boundary, and what batches without an epoch stand behind."""
    falls = NONE < right.first_format < left.last_format
    begun = left if left.first_format != NONE else right
    behind_older = right.epochless_first if NONE < left.last_format < NEWEST_FORMAT else 0
    return {
        "first_format": begun.first_format,
        "first_format_offset": begun.first_format_offset,
        "last_format": right.last_format if right.last_format != NONE else left.last_format,
        "format_falls": left.format_falls + right.format_falls + falls,
        "format_fall_offset": left.format_fall_offset
        if left.format_falls
        else right.first_format_offset
        if falls
        else right.format_fall_offset,
        "rewritten_batches": left.rewritten_batches + right.rewritten_batches + behind_older,
        "epochless_first": left.epochless_first + (right.epochless_first if left.last_format == NONE else 0),
    }


def _joined_epoch_runs(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    if len(left) == 0 or len(right) == 0 or left[-1]["leader_epoch"] != right[0]["leader_epoch"]:
        return np.concatenate([left, right])
    joined = np.concatenate([left, right[1:]])
    at = len(left) - 1
    joined[at]["end_offset"] = right[0]["end_offset"]
    joined[at]["batches"] += right[0]["batches"]
    joined[at]["records"] += right[0]["records"]
    return joined


def _joined_events(
    left: NDArray[Any], right: NDArray[Any], *, ignore_sequences: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Concatenates events; a producer's last run on the left takes in its first on the right where they are one."""
    if len(left) == 0 or len(right) == 0:
        return np.concatenate([left, right]), np.zeros(0, dtype=GAP)
    events = np.concatenate([left, right])
    reversed_ids, reversed_at = np.unique(left["producer_id"][::-1], return_index=True)
    last_on_left = dict(zip(reversed_ids.tolist(), (len(left) - 1 - reversed_at).tolist(), strict=True))
    first_ids, first_at = np.unique(right["producer_id"], return_index=True)
    keep = np.ones(len(events), dtype=bool)
    gaps = []
    for producer_id, at in zip(first_ids.tolist(), first_at.tolist(), strict=True):
        into = last_on_left.get(producer_id)
        if into is None:
            continue
        before, after = events[into], events[len(left) + at]
        if (
            before["kind"] != RUN
            or after["kind"] != RUN
            or before["producer_epoch"] != after["producer_epoch"]
            or before["transactional"] != after["transactional"]
        ):
            continue
        expected = (int(before["last_sequence"]) + 1) & SEQUENCE_MASK
        ahead = (int(after["first_sequence"]) - expected) & SEQUENCE_MASK
        if not ignore_sequences:
            if ahead >= FORWARD_LIMIT:
                continue
            if ahead:
                before["gaps"] += 1
                before["missing_sequences"] += ahead
                gaps.append(
                    (
                        producer_id,
                        before["producer_epoch"],
                        expected,
                        after["first_sequence"],
                        after["first_offset"],
                        before["last_offset"],
                        before["last_timestamp"],
                        after["first_timestamp"],
                    )
                )
        for name in ("last_sequence", "last_offset", "last_timestamp", "last_offset_delta"):
            before[name] = after[name]
        looks = [look for event in (after, before) for name in LOOKS if (look := event[name])]
        for name, look in zip(LOOKS, looks, strict=False):
            before[name] = look
        for name in ("gaps", "missing_sequences", "batches", "records"):
            before[name] += after[name]
        keep[len(left) + at] = False
    return events[keep], np.array(gaps, dtype=GAP)


def _first(entries: NDArray[Any], by: str, limit: int) -> NDArray[Any]:
    return entries[np.argsort(entries[by], kind="stable")][:limit]


def _kept_findings(findings: NDArray[Any]) -> NDArray[Any]:
    """The first of each kind, in log order, so that a merge keeps what one pass would have kept."""
    keep = np.zeros(len(findings), dtype=bool)
    for kind in range(len(FINDING_KINDS)):
        keep[np.nonzero(findings["kind"] == kind)[0][:FINDINGS_KEPT]] = True
    return findings[keep]


def by_bucket(buckets: NDArray[Any]) -> NDArray[Any]:
    """One row per bucket, in order: a bucket's batches may lie in two segments, or come back after a disorder."""
    if len(buckets) < 2 or bool(np.all(buckets["bucket"][1:] > buckets["bucket"][:-1])):
        return buckets.copy()
    ids, inverse = np.unique(buckets["bucket"], return_inverse=True)
    joined = np.zeros(len(ids), dtype=BUCKET)
    joined["bucket"] = ids
    joined["first_offset"] = np.iinfo(np.int64).max
    np.add.at(joined["digest"], inverse, buckets["digest"])
    np.add.at(joined["batches"], inverse, buckets["batches"])
    np.minimum.at(joined["first_offset"], inverse, buckets["first_offset"])
    np.maximum.at(joined["end_offset"], inverse, buckets["end_offset"])
    return joined
