"""Replay: salvaged records, produced again to a running cluster, each once.

In: a salvaged directory, a live partition, what the user asks for. Out: what would be produced and what is left out and
why (`Plan`), and, where it is asked for, the records on the topic (`Replayed`). The order decides that nothing is
produced twice and nothing is lost, whenever it dies:

    1  the journal says what earlier replays sent                                              (`replay_journal`)
    2  the partition is read from where its log was cut, and compared: by the producer ids and sequences of the journal,
       and by what survived                                                                    (`comparison`)
    3  a batch of which nobody knows whether it arrived is sent again, the very same           (`LivePartition.append`)
    4  what is left is sent batch by batch: journal, send, acknowledgement of all in-sync replicas, journal
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidegauge.kafka_log.records import Record
from tidegauge.progress import working
from tidegauge.recovery import replay_plan
from tidegauge.recovery.comparison import Comparison, Wanted, key_digest
from tidegauge.recovery.leader_client import RefusedRequestError
from tidegauge.recovery.live_partition import LivePartition, PartitionDescription
from tidegauge.recovery.replay_batches import BatchLimits, batch_bytes, groups, packed_bytes
from tidegauge.recovery.replay_journal import Journal, ProducerRun, SentBatch, Target, read_journal
from tidegauge.recovery.replay_plan import Asked, Candidate, LeftOut, Limits, limits_of
from tidegauge.recovery.salvaged import Salvage
from tidegauge.snapshots.errors import ClusterError
from tidegauge.snapshots.throttle import Throttle

_LARGEST_SEQUENCE: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast to produce at most; None: as fast as the cluster takes it."""

    records_per_s: float | None = None
    bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a replay does, before it does it."""

    target: Target
    description: PartitionDescription
    limits: Limits
    salvaged: int
    compared_from: int
    compared_to: int
    to_send: Sequence[int]
    """Salvaged offsets, in their order, that are produced anew."""
    unsettled: Sequence[tuple[ProducerRun, SentBatch]]
    """Batches of earlier replays of which nobody knows whether they arrived: they are sent again first."""
    left_out: Mapping[int, LeftOut]
    ways: Mapping[str, int]
    """Of those that are on the partition: how many are known by what."""
    warnings: Sequence[str]

    @property
    def to_produce(self) -> int:
        """Records, those of unsettled batches included."""
        return len(self.to_send) + sum(len(batch.offsets) for _, batch in self.unsettled)

    @property
    def is_whole(self) -> bool:
        """Nothing waits for another replay once this one is done."""
        return LeftOut.PRESENT_OPEN not in self.counts

    @property
    def counts(self) -> Mapping[LeftOut, int]:
        """How many are left out, by why."""
        return Counter(self.left_out.values())


@dataclass(slots=True, kw_only=True)
class Replayed:
    """What was produced: how many records, and where the first and the last of them lie on the topic."""

    records: int = 0
    size_bytes: int = 0
    first_offset: int | None = None
    end_offset: int | None = None

    def took(self, count: int, size_bytes: int, offset: int | None) -> None:
        """One batch more is there."""
        self.records += count
        self.size_bytes += size_bytes
        if offset is not None:
            self.first_offset = offset if self.first_offset is None else min(self.first_offset, offset)
            self.end_offset = max(self.end_offset or 0, offset + count)


def planned(salvage: Salvage, live: LivePartition, asked: Asked, *, elsewhere: bool = False) -> Plan:
    """Reads the partition and compares. Raises `SnapshotError` where records must not go there, `ClusterError`."""
    found = live.describe()
    origin = salvage.origin
    replay_plan.check_target(
        origin, cluster_id=found.cluster_id, topic_id=found.topic_id, place=live.place, elsewhere=elsewhere
    )
    target = Target(cluster_id=found.cluster_id, topic_id=found.topic_id, place=live.place)
    limits = limits_of(found.settings, now_ms=time.time_ns() // 1_000_000)
    same_place = live.place == (origin.topic, origin.partition)
    wanted, candidates = _read(salvage, limits, asked, same_place=same_place)
    runs = [run for run in read_journal(salvage.directory) if run.target == target]
    log_start_offset, end_offset = live.log_start_offset(), live.end_offset()
    start = _compared_from(wanted, live, log_start_offset, end_offset, same_place=same_place)
    start = max(log_start_offset, min([start, *(run.end_offset for run in runs)]))
    comparison = Comparison(wanted, {(run.producer_id, run.producer_epoch) for run in runs})
    with working("compare", "offsets", parts=max(0, end_offset - start)) as advance:
        for row, data in live.batches(start, end_offset):
            comparison.see(row, data)
            advance(int(row["last_offset"]) - int(row["base_offset"]) + 1)
    before = _produced_before(runs, comparison, compared_from=start, compacted=limits.compacted)
    compared = comparison.result()
    settled = before.offsets | {offset for _, batch in before.unsettled for offset in batch.offsets}
    left_out = replay_plan.reasons(candidates, compared, produced_before=settled, limits=limits, asked=asked)
    present = (LeftOut.PRESENT, LeftOut.PRESENT_OPEN)
    return Plan(
        target=target,
        description=found,
        limits=limits,
        salvaged=len(wanted),
        compared_from=start,
        compared_to=end_offset,
        to_send=[one.offset for one in wanted if one.offset not in left_out],
        unsettled=before.unsettled,
        left_out={offset: why for offset, why in left_out.items() if offset in before.offsets or offset not in settled},
        ways=Counter(p.way for offset, p in compared.present.items() if left_out.get(offset) in present),
        warnings=[
            *_doubts(salvage, live, comparison, found, log_start_offset, same_place=same_place),
            *before.warnings,
            *replay_plan.warnings(candidates, left_out, live.place, limits),
        ],
    )


def _read(salvage: Salvage, limits: Limits, asked: Asked, *, same_place: bool) -> tuple[list[Wanted], list[Candidate]]:
    """What decides about each record; its bytes are read again when it is sent."""
    wanted: list[Wanted] = []
    candidates: list[Candidate] = []
    for one in salvage.records():
        record = one.record
        stands = same_place and one.survived is not None and not (one.survived == "content" and asked.same_content)
        wanted.append(
            Wanted(
                offset=record.offset,
                timestamp=record.timestamp,
                leader_epoch=one.leader_epoch,
                content=one.content,
                sequenced=one.sequenced,
                key=key_digest(record.key),
                survived_offset=one.survived_offset if stands else None,
            )
        )
        candidates.append(
            Candidate(
                offset=record.offset,
                timestamp=record.timestamp,
                outcome=one.outcome,
                survived=one.survived,
                has_key=record.key is not None,
                packed_bytes=packed_bytes(record, limits.most_bytes),
            )
        )
    return wanted, candidates


def _compared_from(
    wanted: Sequence[Wanted], live: LivePartition, log_start_offset: int, end_offset: int, *, same_place: bool
) -> int:
    """From where on the partition may hold what was salvaged: where its log was cut, or, elsewhere, the first record
    that is as old. Below the cut both logs were one.
    """
    if not wanted:
        return end_offset
    if same_place:
        first = wanted[0]
        cut = live.epoch_end_offset(first.leader_epoch) if first.leader_epoch >= 0 else None
        return min(first.offset, end_offset if cut is None else cut)
    oldest = min(one.timestamp for one in wanted)
    if oldest < 0:
        return log_start_offset
    found = live.offset_at(oldest)
    return end_offset if found is None else found


@dataclass(slots=True, kw_only=True)
class _Before:
    """What earlier replays of this directory did there."""

    offsets: set[int] = field(default_factory=set)
    unsettled: list[tuple[ProducerRun, SentBatch]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _produced_before(
    runs: Sequence[ProducerRun], comparison: Comparison, *, compared_from: int, compacted: bool
) -> _Before:
    """What is on the partition counts. The journal alone is believed where the partition cannot tell: of what retention
    or compaction has removed since.
    """
    found, gone = _Before(), 0
    for run in runs:
        for batch in run.batches.values():
            on_topic = (run.producer_id, run.producer_epoch, batch.sequence) in comparison.found_own
            cannot_tell = compacted or batch.offset is None or batch.offset < compared_from
            if on_topic or (batch.acknowledged and cannot_tell):
                found.offsets.update(batch.offsets)
            elif batch.acknowledged:
                gone += len(batch.offsets)
            else:
                found.unsettled.append((run, batch))
    if gone:
        found.warnings.append(
            f"{gone:,} records that an earlier replay produced are not on the partition any more, though nothing was "
            "deleted there: it has lost records again. They are produced again. Capture and audit the cluster."
        )
    return found


def _doubts(
    salvage: Salvage,
    live: LivePartition,
    comparison: Comparison,
    found: PartitionDescription,
    log_start_offset: int,
    *,
    same_place: bool,
) -> Iterator[str]:
    """What could not be compared or checked."""
    unreadable = [*live.unreadable, *comparison.unreadable]
    if unreadable:
        yield (
            f"{len(unreadable):,} batches of {live.place} cannot be read, so records in them may be produced a second "
            f"time: {'; '.join(unreadable[:3])}."
        )
    if same_place and salvage.start_offset is not None and log_start_offset > salvage.start_offset:
        yield (
            f"{live.place} begins at offset {log_start_offset} by now: what was written between {salvage.start_offset} "
            "and there is deleted, so nobody can tell whether some of the records were among it."
        )
    if None in (salvage.origin.topic_id, found.topic_id):
        yield "The topic's id is not known on both sides: nobody can tell whether it was deleted and made again since."
    if salvage.unreadable:
        yield f"{salvage.unreadable:,} batches could not be salvaged: salvage.json names them. They are not produced."
    if found.settings_refused is not None:
        yield f"The topic's settings are not known, so nothing was checked against them: {found.settings_refused}"


class Replay:
    """Carries a plan out. Made with an open journal, so that nobody else replays the same directory meanwhile."""

    def __init__(
        self, salvage: Salvage, live: LivePartition, plan: Plan, journal: Journal, *, rate: Rate, done: Replayed
    ) -> None:
        self._salvage, self._live, self._plan, self._journal = salvage, live, plan, journal
        self._by_records, self._by_bytes = Throttle(rate.records_per_s), Throttle(rate.bytes_per_s)
        self._limits = _batch_limits(plan.limits, rate)
        self.done = done

    def run(self) -> None:
        """Raises `ClusterError`. `done` says how far it came, however it ends."""
        with working("replay", "records", parts=self._plan.to_produce) as advance:
            left = [*self._settle(advance), *self._plan.to_send]
            if left:
                run = self._new_run()
                sequence = 0
                for group in groups(self._records(frozenset(left)), self._limits):
                    self._send(run, sequence, group, advance)
                    sequence = (sequence + len(group)) & _LARGEST_SEQUENCE

    def _new_run(self) -> ProducerRun:
        producer_id, epoch = self._live.new_producer()
        run = ProducerRun(
            target=self._plan.target,
            producer_id=producer_id,
            producer_epoch=epoch,
            end_offset=self._live.end_offset(),
        )
        self._journal.begin(run)
        return run

    def _send(self, run: ProducerRun, sequence: int, group: Sequence[Record], advance: Callable[[int], None]) -> None:
        batch = SentBatch(
            sequence=sequence, offsets=tuple(record.offset for record in group), acknowledged=False, offset=None
        )
        data = batch_bytes(group, run, sequence, self._plan.limits.most_bytes)
        self._journal.send(run, batch)
        try:
            offset = self._live.append(data)
        except RefusedRequestError as error:
            if not error.of_sequence:
                raise
            raise ClusterError(
                f"{self._live.place} has lost records that this replay produced a moment ago: {error} Run the same "
                "command again: it compares anew, and produces what is missing."
            ) from error
        self._journal.sent(run, sequence, offset)
        self.done.took(len(group), len(data), offset)
        advance(len(group))
        self._by_records.take(len(group))
        self._by_bytes.take(len(data))

    def _settle(self, advance: Callable[[int], None]) -> Iterator[int]:
        """Sends again what may have arrived; the offsets of what will never be there under its sequence.

        A leader that refuses such a batch does not have it, for it would have known it; and it refuses the first one
        as well, should that one still arrive.
        """
        for run, batch in self._plan.unsettled:
            group = list(self._records(frozenset(batch.offsets)))
            data = batch_bytes(group, run, batch.sequence, self._plan.limits.most_bytes)
            try:
                offset = self._live.append(data)
            except RefusedRequestError as error:
                if not error.of_batch:
                    raise
                self._journal.dropped(run, batch.sequence)
                yield from batch.offsets
                continue
            self._journal.sent(run, batch.sequence, offset)
            self.done.took(len(group), len(data), offset)
            advance(len(group))

    def _records(self, offsets: frozenset[int]) -> Iterator[Record]:
        return (one.record for one in self._salvage.records() if one.record.offset in offsets)


def _batch_limits(limits: Limits, rate: Rate) -> BatchLimits:
    """A batch is never more than a second's worth."""
    found = BatchLimits(most_bytes=limits.most_bytes)
    return BatchLimits(
        most_bytes=found.most_bytes,
        most_records=min(found.most_records, max(1, int(rate.records_per_s or found.most_records))),
        wanted_bytes=min(found.wanted_bytes, max(1, int(rate.bytes_per_s or found.wanted_bytes))),
    )
