"""When a snapshot was captured, by what a verdict may rest on.

In: a manifest, the index step's rows. Out: milliseconds since the epoch, or None. No client's clock tells it. A
producer stamps its records as it likes; the active controller writes twice a second by its own clock, so where the
metadata log ends the copy was made, or the cluster had stopped. A copy whose coordinators wrote on long after that
holds an old metadata log, which tells nothing of the others.
"""

from collections.abc import Collection
from typing import Final

import pyarrow.dataset as ds

from tidegauge.kafka_log.internal_topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from tidegauge.snapshots.catalogue import DatedAhead, as_text, finished_at_ms, is_ahead
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import LAST_INSTANT_MS, Manifest

_COORDINATORS: Final = frozenset({CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE})
"""Their records bear the time of the broker that wrote them (CoordinatorRuntime, TransactionStateManager)."""
_APART_MS: Final = 60_000
"""How far brokers' clocks, and the copies of their logs, may lie apart."""


def captured_at_ms(manifest: Manifest, summaries: ds.Dataset, *, key: str) -> int | None:
    """The instant; `key` names the snapshot among the rows of the index step."""
    finished = finished_at_ms(manifest)
    if finished is not None:
        return finished
    controllers = _newest(summaries, key, {CLUSTER_METADATA})
    coordinators = _newest(summaries, key, _COORDINATORS)
    if controllers is None or (coordinators is not None and coordinators > controllers + _APART_MS):
        return None
    return controllers


class DatedAheadError(SnapshotError):
    """A snapshot is dated in the future. `claim` says of which, for those who are to be told."""

    claim: DatedAhead


def check_clock(manifest: Manifest, place: str, at_ms: int | None, *, now_ms: int) -> None:
    """Refuses what is dated in the future: it would count as the newest of its cluster for as long as that is, and what
    is audited after it would neither breach nor resolve anything. Raises `DatedAheadError`.
    """
    if at_ms is None or not is_ahead(at_ms, now_ms=now_ms):
        return
    error = DatedAheadError(
        f"{manifest.cluster}/{manifest.snapshot_id} says that it was captured at {as_text(at_ms)}, and here it is "
        f"{as_text(now_ms)}. Set the clock that is wrong, this machine's or that of who captured it, and capture anew; "
        "nothing of it was judged."
    )
    error.claim = DatedAhead(
        cluster=manifest.cluster,
        snapshot_id=manifest.snapshot_id,
        place=place,
        claimed_at_ms=at_ms,
        believed_at_ms=now_ms,
    )
    raise error


def _newest(summaries: ds.Dataset, key: str, topics: Collection[str]) -> int | None:
    rows = summaries.to_table(
        columns=["max_timestamp_ms"],
        filter=(ds.field("snapshot") == key) & ds.field("topic").isin(sorted(topics)),
    )
    known = (at for at in rows.column("max_timestamp_ms").to_pylist() if at is not None)
    # An instant that no calendar has was written by damage.
    return max((at for at in known if 0 <= at <= LAST_INSTANT_MS), default=None)
