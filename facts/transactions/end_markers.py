"""The end markers that stand in a partition.

In: a replica's events. Out: its readable markers by producer id and epoch, in log order. A marker that cannot be read
is none of these.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegauge.facts.replicas.replica import ReplicaFacts
from tidegauge.facts.segments.summary import ABORT, COMMIT, EVENT, MARKER


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """An end marker in a partition. `at_ms` is of the clock of the leader that wrote it."""

    offset: int
    outcome: str
    at_ms: int


MarkersByEpoch = Mapping[tuple[int, int], Sequence[Marker]]


def end_markers(reference: ReplicaFacts) -> MarkersByEpoch:
    """By producer id and epoch, in log order."""
    parts = [part.events for segment in reference.given.segments for _, part in segment.ranges]
    events = np.concatenate(parts) if parts else np.zeros(0, dtype=EVENT)
    found: dict[tuple[int, int], list[Marker]] = defaultdict(list)
    for event in events[(events["kind"] == MARKER) & (events["marker_type"] >= ABORT)]:
        found[int(event["producer_id"]), int(event["producer_epoch"])].append(
            Marker(
                offset=int(event["first_offset"]),
                outcome="committed" if event["marker_type"] == COMMIT else "aborted",
                at_ms=int(event["last_timestamp"]),
            )
        )
    return dict(found)
