"""Losses: records that Kafka will remove from a replica, how far they are proven committed, and who holds them.

In: the divergences of a partition, the commitment of each, its election history. Out: rows of `losses`, one per range
and set of holders. An uncommitted tail that a clean election leaves behind is no loss; what is called committed is
proven to have been; what may have been, and nothing tells, is `possible`; a cause is named only where what excludes the
others is on record.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tidegauge.facts.context import PartitionContext
from tidegauge.facts.coordinators.history import NO_EPOCH
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.facts.replicas.commitment import Commitment, shared_end
from tidegauge.facts.replicas.comparison import markers_between, records_between
from tidegauge.facts.replicas.divergence import Divergence
from tidegauge.facts.replicas.readers import readers_of
from tidegauge.relations import LossRow

_WITHOUT: Final[Mapping[str, str]] = {
    "metadata_log": "no metadata log at hand tells who led then, or what that broker knew of the ISR",
    "metadata_log_start": "the election is not on record: the metadata log begins behind it",
    "broker": "the disk of the broker that led then is not in the copy",
    "settings": "min.insync.replicas is not known",
    "checkpoint": "the high watermark of who holds them is not at hand",
    "ledger": "only the producers know whether these records were acknowledged",
}
"""Missing evidence -> why it is not known whether records were committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """Offsets that the same brokers hold, of the log of one of them."""

    start_offset: int
    end_offset: int
    log: Divergence
    held_by: tuple[int, ...]
    proven_end_offset: int


def loss_row(
    context: PartitionContext,
    start_offset: int,
    end_offset: int,
    *,
    records: int,
    markers: int | None,
    leader_epoch: int | None,
    held_by: Iterable[int],
    state: str,
    declared_committed: int,
    cause: str,
    groups: Iterable[str],
) -> LossRow:
    """A row of `losses`, whoever tells of it. `state`: at_risk, lost or possible."""
    return {
        "topic": context.topic,
        "partition": context.partition,
        "start_offset": start_offset,
        "end_offset": end_offset,
        "records": records,
        "markers": markers,
        "leader_epoch": leader_epoch,
        "held_by": sorted(held_by),
        "state": state,
        "declared_committed": declared_committed,
        "cause": cause,
        "groups_affected": sorted(groups),
    }


def losses_of(
    context: PartitionContext, divergences: Sequence[Divergence], commitments: Mapping[int, Commitment]
) -> list[LossRow]:
    """One row per range that is at risk on some replica's disk, or may be, and set of brokers that hold it."""
    rows = []
    for stretch in _stretches(divergences, commitments):
        start, end, log = stretch.start_offset, stretch.end_offset, stretch.log
        records = records_between(log.suffix, start, end)
        if records == 0:
            continue
        committed = records_between(log.suffix, start, min(stretch.proven_end_offset, end))
        told = max((commitments[b] for b in stretch.held_by), key=lambda c: (c.proven_end_offset, c.open_end_offset))
        rows.append(
            loss_row(
                context,
                start,
                end,
                records=records,
                markers=markers_between(log.suffix, start, end),
                leader_epoch=None if log.truncated_leader_epoch == NO_EPOCH else log.truncated_leader_epoch,
                held_by=stretch.held_by,
                state="at_risk" if committed else "possible",
                declared_committed=committed,
                cause=_cause(told, log),
                groups=readers_of(context, start, log.truncated_leader_epoch),
            )
        )
    return sorted(rows, key=lambda row: (row["start_offset"], row["end_offset"]))


def _stretches(divergences: Sequence[Divergence], commitments: Mapping[int, Commitment]) -> Iterator[_Stretch]:
    """What was committed beyond the reference, or may have been: each offset of each lineage once, with its holders."""
    done: list[tuple[Divergence, int]] = []
    at_stake = [d for d in divergences if d.records_at_stake > 0]
    for log in sorted(at_stake, key=lambda d: (-d.follower.log_end_offset, d.follower.broker_id)):
        end = commitments[log.follower.broker_id].open_end_offset
        told = (min(until, shared_end(log.follower, d.follower)) for d, until in done)
        start = max((log.stake_offset, *told))
        if start >= end:
            continue
        done.append((log, end))
        holds = {d.follower.broker_id: shared_end(log.follower, d.follower) for d in at_stake}
        edges = sorted({start, end, *(until for until in holds.values() if start < until < end)})
        for low, high in pairwise(edges):
            held_by = tuple(broker for broker, until in holds.items() if until >= high)
            proven = max(min(commitments[b].proven_end_offset, holds[b]) for b in held_by)
            yield _Stretch(start_offset=low, end_offset=high, log=log, held_by=held_by, proven_end_offset=proven)


def _cause(told: Commitment, divergence: Divergence) -> str:
    """What cut the records off, or will; all that it may have been where the record does not tell."""
    if told.unclean is not None:
        cause = election_cause(told.unclean)
    elif divergence.newer_epoch is None:
        cause = (
            f"broker {divergence.leader.broker_id}'s log ends at {divergence.leader.log_end_offset} in the same leader "
            "epoch, below a high watermark that had been declared: it lost its tail"
        )
    else:
        cause = (
            f"leader epoch {divergence.newer_epoch} of broker {divergence.leader.broker_id} starts at "
            f"{divergence.newer_epoch_start_offset}"
        )
        if told.records:
            cause += ", below a high watermark that had been declared"
        cause += (
            f"; no unclean election is on record, so broker {divergence.leader.broker_id}'s log lost its tail, or its "
            "disk is of an earlier moment"
            if told.elections_on_record
            else "; not every election since is on record, so it may have been an unclean election, a log that lost "
            "its tail, or a disk of an earlier moment"
        )
    if told.lacks is not None and not told.records:
        cause += f". Whether they were committed is not known: {_WITHOUT[told.lacks]}"
    return cause


def election_cause(election: PartitionChange) -> str:
    """An election that gave records up, as the cause of a loss."""
    record = f"record {election.metadata_offset} of the metadata log made broker {election.leader_id} "
    epoch = f"(epoch {election.leader_epoch})"
    if election.election == "last_known":
        return f"election of who had led last: {record}leader again {epoch}, though it had stopped uncleanly"
    return f"unclean election: {record}leader {epoch} while the ISR was {list(election.previous_isr)}"
