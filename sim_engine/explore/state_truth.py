"""What is true in a state of the specification: the ledger that an audit of its disks is held against.

In: a state's fields. Out: TRUTH.json's document, and beside its keys the state itself and where it violates StrongIsr.
A violation is what the specification says it is (`rules.breaks_strong_isr`), told per member.

    StrongIsr   each member of the quorum's ISR has what is below the high watermark of who believes to lead
    lost        below somebody's high watermark, and not, or not as it was, in the log of the quorum's leader
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidegauge.sim_engine.explore.layout import (
    END,
    ENTRIES,
    EPOCH,
    HIGH_WATERMARK,
    LEADER,
    QUORUM_ISR,
    QUORUM_LEADER,
    Layout,
)
from tidegauge.sim_engine.explore.render_state import PARTITION, STARTED_AT_MS, Fields, members_of, requests_of
from tidegauge.sim_engine.log.persistent import Trail
from tidegauge.sim_engine.truth import Elected, Lineage, Lost, Truth, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """One replica in plain values. `log`: (record, leader epoch) by offset; -1 for what it does not know."""

    broker_id: int
    leader_id: int
    leader_epoch: int
    high_watermark: int
    log: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A member of the ISR lacks [start, end), which a leader has declared committed."""

    invariant: str
    leader_id: int
    member_id: int
    start_offset: int
    end_offset: int


def document(layout: Layout, fields: Fields) -> dict[str, Any]:
    """TRUTH.json of a state."""
    replicas = replicas_of(layout, fields)
    leader = int(fields[QUORUM_LEADER]) or -1
    high_watermark = max(r.high_watermark for r in replicas)
    requests = requests_of(fields)
    truth = Truth(
        elections=Trail(_elections(requests)),
        losses=Trail(_losses(replicas, leader)),
        lineages={
            PARTITION: Lineage(
                leader=leader,
                leader_epoch=len(requests) - 1,
                high_watermark=high_watermark,
                last_stable_offset=high_watermark,
            )
        },
    )
    state = {"leader_id": leader, "isr": members_of(int(fields[QUORUM_ISR])), "replicas": [plain(r) for r in replicas]}
    return {**truth.to_json(), "state": state, "violations": [plain(v) for v in violations(layout, fields)]}


def replicas_of(layout: Layout, fields: Fields) -> list[ReplicaState]:
    """Every replica of a state."""
    found = []
    for number in range(layout.constants.replicas):
        at = layout.replicas_at + number * layout.replica_fields
        entries = range(at + ENTRIES, at + ENTRIES + 2 * int(fields[at + END]), 2)
        found.append(
            ReplicaState(
                broker_id=number + 1,
                leader_id=int(fields[at + LEADER]) or -1,
                leader_epoch=int(fields[at + EPOCH]) - 1,
                high_watermark=int(fields[at + HIGH_WATERMARK]),
                log=tuple((int(fields[entry]) - 1, int(fields[entry + 1]) - 1) for entry in entries),
            )
        )
    return found


def violations(layout: Layout, fields: Fields) -> list[Violation]:
    """Where the state violates StrongIsr."""
    replicas = replicas_of(layout, fields)
    found = []
    for leader in replicas:
        if leader.leader_id != leader.broker_id:
            continue
        for member in members_of(int(fields[QUORUM_ISR])):
            start = _first_lacking(leader, replicas[member - 1])
            if start < leader.high_watermark:
                found.append(
                    Violation(
                        invariant="StrongIsr",
                        leader_id=leader.broker_id,
                        member_id=member,
                        start_offset=start,
                        end_offset=leader.high_watermark,
                    )
                )
    return found


def _first_lacking(declares: ReplicaState, holds: ReplicaState) -> int:
    """The first offset that one declares committed and the other does not hold as it is; the high watermark if none."""
    for offset in range(declares.high_watermark):
        if holds.log[offset : offset + 1] != declares.log[offset : offset + 1]:
            return offset
    return declares.high_watermark


def _losses(replicas: list[ReplicaState], leader: int) -> Iterator[Lost]:
    if leader < 0:
        return
    lacking = [(_first_lacking(r, replicas[leader - 1]), r) for r in replicas]
    lacking = [(start, r) for start, r in lacking if start < r.high_watermark]
    if lacking:
        start = min(start for start, _ in lacking)
        yield Lost(
            at_ms=STARTED_AT_MS,
            partition=PARTITION,
            start_offset=start,
            end_offset=max(r.high_watermark for _, r in lacking),
            leader_epoch=replicas[leader - 1].leader_epoch,
            cause="truncation",
            broker_id=leader,
            committed=True,
        )


def _elections(requests: list[tuple[int, list[int]]]) -> Iterator[Elected]:
    isr_before: list[int] = []
    for leader_epoch, (leader, isr) in enumerate(requests):
        yield Elected(
            at_ms=STARTED_AT_MS,
            partition=PARTITION,
            kind="first" if leader_epoch == 0 else "clean" if leader > 0 else "none",
            leader=leader,
            leader_epoch=leader_epoch,
            isr_before=tuple(isr_before),
            elr_before=(),
            isr=tuple(isr),
            metadata_offset=-1,
        )
        isr_before = isr
