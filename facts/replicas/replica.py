"""One replica: its segments' summaries merged, its producers replayed, its derived files judged against its log.

In: a `ReplicaInput`, what the index step and the small files gave. Out: a `ReplicaFacts`, from which the rows of
`segments`, `replicas`, `epoch_spans`, `producers`, `sequence_gaps` and `index_files` are written. What a damaged place
hides is not guessed; what can still be read behind it is.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from tidegauge.facts.metadata.expiration import Expiration
from tidegauge.facts.producers.cleaned_aborts import check_aborts_kept
from tidegauge.facts.producers.replay import ProducerReplay
from tidegauge.facts.producers.snapshot_content import check_producer_snapshot
from tidegauge.facts.replicas.derived_files import LaterAppends, check_transaction_index
from tidegauge.facts.replicas.epochs import EpochVector, epoch_vector
from tidegauge.facts.replicas.producer_replays import StatesAt, ranges, replayed, replayed_from_snapshot
from tidegauge.facts.replicas.replica_input import (
    CheckpointedOffsets,
    CopiedKinds,
    CopyMoment,
    IndexedFile,
    IndexedSegment,
    ReplicaInput,
)
from tidegauge.facts.segments.index_file_facts import IndexFileFacts
from tidegauge.facts.segments.log_place import LogPlace
from tidegauge.facts.segments.summary import FINDING_KINDS, NEWEST_FORMAT, NONE, SegmentSummary, empty_summary, merge
from tidegauge.kafka_log.checkpoints import EpochEntry
from tidegauge.kafka_log.corruption import Damage
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.producer_snapshot import ProducerSnapshotEntry

CLEANED_END_UNKNOWN: Final = "cleaner-offset-checkpoint not copied"
"""Why a log that a cleaner may have rewritten, nobody can say up to where, is compared with no other."""
CHAIN_DAMAGE: Final = frozenset({Damage.LENGTH, Damage.TORN_TAIL})


INDEXES_GONE: Final = "the offset index is gone, too: Kafka builds both anew"
"""A segment without its offset index is recovered when the log is loaded, with all of its indexes, and none is ever
without one while a broker runs (LogLoader#loadSegmentFiles, LogSegment#sanityCheck, #recover).
"""
TRANSACTION_INDEXES_NOT_COPIED: Final = "transaction indexes not copied"


@dataclass(slots=True, kw_only=True)
class ReplicaSegment:
    """A segment with what the segments before it say about its first batch."""

    segment: IndexedSegment
    summary: SegmentSummary
    next_base_offset: int | None
    previous_last_offset: int | None
    counts: dict[str, int]
    boundary_missing: int
    boundary_damages: list[LogPlace]
    format_falls: int
    format_fall_offset: int
    rewritten_batches: int
    """Batches without a leader epoch that a cleaner wrote anew, of entries that had none."""
    epochless_first: int
    """Those before any batch of the log that would tell."""


@dataclass(slots=True, kw_only=True)
class ReplicaFacts:
    """One replica's facts. `summary` is the merge over all its segments."""

    given: ReplicaInput
    summary: SegmentSummary
    segments: list[ReplicaSegment]
    log_start_offset: int
    local_log_start_offset: int
    log_end_offset: int
    """Where `end_known` is false: no more than what was read, and the log reaches beyond it."""
    readable_end_offset: int
    end_known: bool
    """False where the log's last segment is there and could not be read."""
    vector: EpochVector
    replay: ProducerReplay
    snapshot_replay: ProducerReplay | None
    index_files: list[IndexedFile]
    ever_compacted: bool
    damaged_batches: int
    compaction_assumed: bool = False
    """Nothing tells that it was ever cleaned but what is missing in it, and nothing tells that it was not."""
    epoch_checkpoint_disorder: int = 0
    states_at: dict[int, dict[int, ProducerSnapshotEntry]] = field(default_factory=dict)

    @property
    def broker_id(self) -> int:
        """The broker that holds it."""
        return self.given.place.broker_id

    @property
    def checkpointed(self) -> CheckpointedOffsets:
        """What its log dir's checkpoints say of it."""
        return self.given.checkpointed

    @property
    def moment(self) -> CopyMoment:
        """What happened to it while it was copied."""
        return self.given.moment

    @property
    def copied(self) -> CopiedKinds:
        """Which kinds of files the copy has."""
        return self.given.copied

    @property
    def cleaned_end_known(self) -> bool:
        """It is known up to where a cleaner has rewritten it."""
        return not self.ever_compacted or self.checkpointed.cleaner_offset is not None or self.copied.cleaner_offsets

    @property
    def first_offset(self) -> int | None:
        """Where its first batch begins; None if there is none that can be read."""
        return self.summary.first_offset if self.summary.batch_count else None

    def segment_of(self, offset: int) -> str | None:
        """The name of the segment's file in which an offset lies, or would lie; None if all begin above it."""
        segments = self.given.segments
        at = bisect_right([s.base_offset for s in segments], offset) - 1
        return segments[at].path.rsplit("/", 1)[-1] if at >= 0 else None


def replica_facts(
    given: ReplicaInput,
    *,
    topic_compacted: bool,
    tiered: bool,
    expiration: Expiration,
    compaction_assumed: bool = False,
    captured_at_ms: int | None = None,
) -> ReplicaFacts:
    """Merges, replays and checks one replica."""
    segments, summary = _merged(given)
    cleaned = topic_compacted or given.checkpointed.cleaner_offset is not None or summary.cleaned_batches > 0
    ever_compacted = cleaned or compaction_assumed
    local_start = min((*(s.base_offset for s in given.segments), *given.unread_bases), default=0)
    log_start = _log_start(given, local_start, tiered=tiered)
    log_end, readable_end = _log_end(given, summary)
    # Behind a segment that could not be read, sequences jump for that reason.
    holes = ever_compacted or bool(given.unread_bases)
    replay, states_at = replayed(given, expiration=expiration, compacted=holes)
    checkpoint = given.epoch_checkpoint
    facts = ReplicaFacts(
        given=given,
        summary=summary,
        segments=segments,
        log_start_offset=log_start,
        local_log_start_offset=local_start,
        log_end_offset=log_end,
        readable_end_offset=readable_end,
        end_known=not given.unread_bases
        or (bool(given.segments) and given.segments[-1].base_offset > max(given.unread_bases)),
        vector=epoch_vector(
            checkpoint=checkpoint.entries if checkpoint is not None else None,
            batch_epochs=_batch_epochs(given, summary),
            log_start_offset=log_start,
            log_end_offset=log_end,
        ),
        replay=replay,
        snapshot_replay=replayed_from_snapshot(
            given, log_start, log_end, expiration=expiration, compacted=ever_compacted
        ),
        index_files=[],
        ever_compacted=ever_compacted,
        compaction_assumed=compaction_assumed and not cleaned,
        # A wrong checksum is a place of damage like any other, and counted by the summary besides.
        damaged_batches=sum(len(s.corruptions) for s in given.segments),
        epoch_checkpoint_disorder=_disorder(checkpoint.entries) if checkpoint is not None else 0,
        states_at={offset: known.states for offset, known in states_at.items()},
    )
    facts.index_files = list(_index_files(facts, states_at, expiration, captured_at_ms))
    return facts


def _merged(given: ReplicaInput) -> tuple[list[ReplicaSegment], SegmentSummary]:
    rows: list[ReplicaSegment] = []
    total = empty_summary()
    for at, segment in enumerate(given.segments):
        own = empty_summary()
        for _, part in segment.ranges:
            own = merge(own, part, ignore_sequences=given.ignore_sequences)
        counts = dict(zip(FINDING_KINDS, own.counts, strict=True))
        boundary: list[LogPlace] = []
        missing = 0
        # The summary of the log up to here, less the log before: with what stands before it, the segment tells more.
        before = merge(total, own, ignore_sequences=given.ignore_sequences)
        if total.batch_count and own.batch_count:
            # What only the boundary shows belongs to this segment: its first batch does not follow the one before.
            for kind in ("offset_order", "offset_gap", "epoch_order"):
                counts[kind] += before.count(kind) - total.count(kind) - own.count(kind)
            missing = before.missing_offsets - total.missing_offsets - own.missing_offsets
            boundary = _boundary(total, own)
            if own.first_offset > total.last_offset + 1 and (
                _broken_between(given.segments[at - 1], segment)
                or any(given.segments[at - 1].base_offset < u < segment.base_offset for u in given.unread_bases)
            ):
                counts["offset_gap"] = own.count("offset_gap")
                missing = 0
                boundary = [place for place in boundary if place["kind"] != "offset_gap"]
        rows.append(
            ReplicaSegment(
                segment=segment,
                summary=own,
                next_base_offset=given.segments[at + 1].base_offset if at + 1 < len(given.segments) else None,
                previous_last_offset=total.last_offset if total.batch_count else None,
                counts=counts,
                boundary_missing=missing,
                boundary_damages=boundary,
                format_falls=before.format_falls - total.format_falls,
                format_fall_offset=own.format_fall_offset
                if before.format_falls - total.format_falls == own.format_falls
                else own.first_format_offset,
                rewritten_batches=before.rewritten_batches - total.rewritten_batches,
                epochless_first=before.epochless_first - total.epochless_first,
            )
        )
        total = before
    if NONE < total.first_format < NEWEST_FORMAT:
        for row in rows:  # What stands before the log's first entry of an old format is older still.
            row.rewritten_batches, row.epochless_first = row.rewritten_batches + row.epochless_first, 0
    return rows, total


def _boundary(total: SegmentSummary, own: SegmentSummary) -> list[LogPlace]:
    """Where a segment's first batch does not follow the last one of the log before it."""
    found = []
    if own.first_offset > total.last_offset + 1:
        detail = f"offset {own.first_offset} follows {total.last_offset} of the segment before"
        found.append(_place("offset_gap", 0, total.last_offset + 1, own.first_offset, detail))
    elif own.first_offset <= total.last_offset:
        detail = f"base offset {own.first_offset} is not above {total.last_offset} of the segment before"
        found.append(_place("offset_order", 0, own.first_offset, total.last_offset + 1, detail))
    if -1 < own.first_leader_epoch < total.last_leader_epoch:
        detail = f"leader epoch {own.first_leader_epoch} after {total.last_leader_epoch}"
        found.append(_place("epoch_order", 0, own.first_offset, own.first_offset + 1, detail))
    return found


def _broken_between(left: IndexedSegment, right: IndexedSegment) -> bool:
    """The chain breaks at the end of one segment or the start of the next: the gap between them is that damage's."""
    return any(c.kind in CHAIN_DAMAGE and c.end_position >= left.size_bytes for c in left.corruptions) or any(
        c.kind in CHAIN_DAMAGE and c.position == 0 for c in right.corruptions
    )


def _place(kind: str, position: int, start: int, end: int, detail: str = "") -> LogPlace:
    return {
        "kind": kind,
        "position": position,
        "end_position": position,
        "start_offset": start,
        "end_offset": end,
        "records": end - start,
        "detail": detail,
    }


def _log_start(given: ReplicaInput, local_start: int, *, tiered: bool) -> int:
    """The checkpoint where it lists the replica (it lies inside the first segment, or below it when tiered).

    A tiered replica that is not listed begins at 0 until its leader tells it more (LogLoader#load).
    """
    listed = given.checkpointed.log_start_offset or 0
    return listed if tiered else max(listed, local_start)


def _log_end(given: ReplicaInput, summary: SegmentSummary) -> tuple[int, int]:
    """Where the log ends when the broker starts (after an unclean stop, where recovery would end it), and where the
    readable batches end.
    """
    if not given.segments:
        return 0, 0
    last = given.segments[-1]
    readable = max(summary.last_offset + 1, last.base_offset)
    if given.moment.clean_shutdown:
        return readable, readable  # Nothing is recovered, so nothing is cut.
    has_break = any(c.kind in CHAIN_DAMAGE for c in last.corruptions)
    if has_break:
        end = last.valid_end_offset if last.valid_end_offset is not None else last.base_offset
        return max(end, last.base_offset), readable
    tail = last.ranges[-1][1] if last.ranges else empty_summary()
    if tail.last_batch_crc_bad:
        good = max((part.last_good_offset for _, part in last.ranges), default=-1)
        return max(good + 1, last.base_offset), readable
    return readable, readable


def _batch_epochs(given: ReplicaInput, summary: SegmentSummary) -> tuple[EpochEntry, ...]:
    """The leader epochs that batches add to what the checkpoint says.

    After a clean stop Kafka believes the checkpoint alone; else it looks at the batches of the segments that it
    recovers, from the one with the recovery point on (LogLoader#recoverLog, LogSegment#recover). An epoch is on disk
    before its first batch is written, so one that is missing before that never was: a header outside the checksum
    changed. Where the checkpoint is not at hand, batches are all there is.
    """
    recovered_from = 0
    if given.epoch_checkpoint is not None:
        if given.moment.clean_shutdown:
            return ()
        flushed = given.checkpointed.recovery_point_offset or 0
        recovered_from = max((s.base_offset for s in given.segments if s.base_offset <= flushed), default=0)
    entries: list[EpochEntry] = []
    for run in summary.epoch_runs:
        if int(run["end_offset"]) <= recovered_from:
            continue
        if not entries or int(run["leader_epoch"]) > entries[-1].leader_epoch:
            entries.append(EpochEntry(leader_epoch=int(run["leader_epoch"]), start_offset=int(run["start_offset"])))
    return tuple(entries)


def _disorder(entries: tuple[EpochEntry, ...]) -> int:
    bad = sum(1 for e in entries if e.leader_epoch < 0 or e.start_offset < 0)
    return bad + sum(
        1
        for before, after in pairwise(entries)
        if after.leader_epoch <= before.leader_epoch or after.start_offset <= before.start_offset
    )


def _index_files(
    facts: ReplicaFacts, states_at: Mapping[int, StatesAt], expiration: Expiration, captured_at_ms: int | None
) -> Iterator[IndexedFile]:
    given = facts.given
    damaged = bool(given.unread_bases) or any(
        c.kind in CHAIN_DAMAGE for row in facts.segments for c in row.segment.corruptions
    )
    head_gone = facts.log_start_offset > 0 or facts.local_log_start_offset > 0 or bool(given.unread_bases)
    yield from _transaction_indexes(facts, damaged=damaged, head_gone=head_gone)
    yield from _producer_snapshots(facts, states_at, expiration, captured_at_ms, damaged=damaged, head_gone=head_gone)


def _transaction_indexes(facts: ReplicaFacts, *, damaged: bool, head_gone: bool) -> Iterator[IndexedFile]:
    """What the index step found of each segment's other indexes, and its transaction index."""
    given = facts.given
    aborted = [t for t in facts.replay.completed if t.outcome == "aborted"]
    later = LaterAppends(
        begun=[(t.first_offset, t.producer_id) for t in facts.replay.transactions],
        epoch_starts=[e.start_offset for e in facts.vector.entries],
        log_end_offset=facts.log_end_offset,
    )
    for row in facts.segments:
        yield from row.segment.indexes
        base = row.segment.base_offset
        file = given.transaction_indexes.get(base)
        checked = check_transaction_index(
            file.content if file is not None else None,
            aborted=aborted,
            later=None if facts.ever_compacted or damaged else later,
            base_offset=base,
            next_base_offset=row.next_base_offset,
            head_gone=head_gone,
            log_first_offset=facts.first_offset,
            log_start_offset=facts.log_start_offset,
            doubtful_offsets=facts.replay.doubtful_offsets,
        )
        if checked is None:
            continue
        _uncheckable(checked, compacted=facts.ever_compacted, damaged=damaged)
        if file is None and not any(i.facts.kind == "index" for i in row.segment.indexes):
            checked.content_checkable = False
            checked.uncheckable_reason = INDEXES_GONE
        elif file is None and not given.copied.transaction_indexes:
            checked.content_checkable = False
            checked.uncheckable_reason = TRANSACTION_INDEXES_NOT_COPIED
        if facts.ever_compacted:
            check_aborts_kept(
                checked,
                file.content.entries if file is not None else (),
                facts.replay,
                segment=(base, row.next_base_offset),
                log_end_offset=facts.log_end_offset,
            )
        path = file.path if file is not None else f"{given.place.directory}/{base:020d}.txnindex"
        yield IndexedFile(path=path, size_bytes=file.size_bytes if file is not None else 0, facts=checked)


def _producer_snapshots(
    facts: ReplicaFacts,
    states_at: Mapping[int, StatesAt],
    expiration: Expiration,
    captured_at_ms: int | None,
    *,
    damaged: bool,
    head_gone: bool,
) -> Iterator[IndexedFile]:
    given = facts.given
    doubtful = facts.replay.doubtful_offsets
    taken_before = {start: part.max_timestamp_ms for start, part in ranges(given) if part.batch_count}
    for snapshot in given.snapshots:
        states = states_at[snapshot.offset].states if snapshot.offset in states_at else None
        if doubtful and doubtful[0] < snapshot.offset:
            states = None  # What the batches that cannot be read did to a producer's state is not known.
        if given.place.topic == CLUSTER_METADATA:
            states = {}  # Controllers append without a producer id, in whatever of the log is gone, too.
        checked = check_producer_snapshot(
            snapshot.content,
            offset=snapshot.offset,
            states=states,
            head_gone=head_gone,
            log_first_offset=facts.first_offset,
            compacted=facts.ever_compacted,
            log_start_offset=facts.log_start_offset,
            taken_before_ms=taken_before.get(snapshot.offset),
            captured_at_ms=captured_at_ms,
            expiration=expiration,
            idle_since_marker=states_at[snapshot.offset].longest_idle if states else {},
        )
        _uncheckable(checked, compacted=False, damaged=damaged)
        # A clean stop and a truncation leave one at the log end of that moment, so any offset of the log is a sound
        # place.
        checked.misplaced = not facts.local_log_start_offset <= snapshot.offset <= facts.readable_end_offset
        yield IndexedFile(path=snapshot.path, size_bytes=snapshot.size_bytes, facts=checked)


def _uncheckable(facts: IndexFileFacts, *, compacted: bool, damaged: bool) -> None:
    if damaged:
        facts.content_checkable = False
        facts.uncheckable_reason = "the log is damaged"
    elif compacted:
        facts.content_checkable = False
        facts.uncheckable_reason = "compacted"
