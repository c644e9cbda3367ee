"""Brokers' registrations over time: a row of `broker_changes` for each metadata record that changes one.

In: a broker's state before and after a record. Out: `BrokerChange`. What did not change is not told; a record that says
again what was so makes no row (the controller fences a fenced broker once more, KIP-631).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tidegauge.relations import BrokerChangeRow


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """A broker as the controller knows it. `broker_epoch` is the offset of its registration."""

    broker_id: int
    broker_epoch: int
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directory_ids: tuple[str, ...]
    incarnation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """One change; `state` after it, of one that was unregistered the last one."""

    metadata_offset: int
    from_snapshot: bool
    at_ms: int | None
    change: str
    state: BrokerState


def broker_change(
    before: BrokerState | None,
    after: BrokerState | None,
    *,
    metadata_offset: int,
    at_ms: int | None,
    from_snapshot: bool,
) -> BrokerChange | None:
    """What one record did to a broker; None if nothing."""
    state = after if after is not None else before
    if state is None or before == after:
        return None
    return BrokerChange(
        metadata_offset=metadata_offset,
        from_snapshot=from_snapshot,
        at_ms=at_ms,
        change=_kind(before, after),
        state=state,
    )


def _kind(before: BrokerState | None, after: BrokerState | None) -> str:
    if after is None:
        return "unregistered"
    if before is None:
        return "registered"
    if before.broker_epoch != after.broker_epoch:
        return "registered again"
    if before.fenced != after.fenced:
        return "fenced" if after.fenced else "unfenced"
    if before.in_controlled_shutdown != after.in_controlled_shutdown:
        return "in controlled shutdown" if after.in_controlled_shutdown else "out of controlled shutdown"
    return "log dirs changed"


def broker_change_rows(changes: Iterable[BrokerChange]) -> list[BrokerChangeRow]:
    """Rows of `broker_changes`, in the order of the log."""
    counts: dict[int, int] = {}
    rows: list[BrokerChangeRow] = []
    for change in changes:
        broker = change.state.broker_id
        at = counts[broker] = counts.get(broker, -1) + 1
        rows.append(
            {
                "broker_id": broker,
                "metadata_offset": change.metadata_offset,
                "sequence_in_log": at,
                "from_snapshot": change.from_snapshot,
                "at_ms": change.at_ms,
                "change": change.change,
                "broker_epoch": change.state.broker_epoch,
                "incarnation_id": change.state.incarnation_id,
                "rack": change.state.rack,
                "fenced": change.state.fenced,
                "in_controlled_shutdown": change.state.in_controlled_shutdown,
            }
        )
    return rows
