"""Rows of `postures` and `risks`: what the partitions' rows and the settings in force come to.

In: rows of `partitions` of one snapshot, and `PostureContext`, what holds for the whole cluster. Out: one row a topic
in `postures`, and the rows of `risks`. Kafka's own topics and users' topics are looked at alike; the metadata log,
which the quorum replicates and no ISR, is not.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tidegauge.facts.metadata.history import EffectiveConfig, MetadataHistory
from tidegauge.facts.metadata.settings import Settings
from tidegauge.facts.risk.posture import Holding, PartitionPosture, risk_rows
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.relations import PartitionRow, PostureRow, Rows

READ_COLUMNS: Final = (
    "topic",
    "topic_id",
    "partition",
    "replicas",
    "isr",
    "elr",
    "last_known_elr",
    "captured_replicas",
    "complete_replicas",
    "holdings",
    "log_start_offset",
    "high_watermark_lower",
    "snapshot_quiet",
)
"""Those of `partitions` that are looked at here."""

_ELR_FEATURE: Final = "eligible.leader.replicas.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """A topic's settings in force, with where each comes from."""

    min_insync_replicas: EffectiveConfig
    unclean_leader_election_enable: EffectiveConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PostureContext:
    """The cluster's part. `racks` names every registered broker; `alive` are those that may lead."""

    racks: Mapping[int, str | None] = field(default_factory=dict)
    alive: frozenset[int] = frozenset()
    stopped: bool = False
    eligible_leader_replicas: bool = False
    settings: Mapping[str, TopicSettings] = field(default_factory=dict)


def posture_context(
    history: MetadataHistory, settings: Settings, *, topics: Collection[str], stopped: bool
) -> PostureContext:
    """What the replayed metadata log and the answers say of the cluster. `topics`: those that there are logs of."""
    return PostureContext(
        racks={b.broker_id: b.rack for b in history.brokers.values()},
        alive=history.alive_brokers,
        stopped=stopped,
        eligible_leader_replicas=bool(history.features.get(_ELR_FEATURE)),
        settings={
            name: TopicSettings(
                min_insync_replicas=settings.sourced(name, "min.insync.replicas"),
                unclean_leader_election_enable=settings.sourced(name, "unclean.leader.election.enable"),
            )
            for name in {*topics, *(t.name for t in history.topics.values() if not t.deleted)}
        },
    )


def posture_rows(partitions: Iterable[PartitionRow], known: PostureContext) -> Rows:
    """Both relations, of rows with `READ_COLUMNS`."""
    by_topic: dict[str, list[PartitionRow]] = {}
    for row in partitions:
        if row["topic"] in known.settings and row["topic"] != CLUSTER_METADATA:
            by_topic.setdefault(row["topic"], []).append(row)
    postures = [partition_posture(row, known) for rows in by_topic.values() for row in rows]
    return {
        "postures": [_posture_row(topic, rows, known) for topic, rows in sorted(by_topic.items())],
        "risks": list(risk_rows(postures, known.racks)),
    }


def partition_posture(row: PartitionRow, known: PostureContext) -> PartitionPosture:
    """One row of `partitions` as a failure would find it."""
    settings = known.settings[row["topic"]]
    holdings = tuple(Holding(**h) for h in json.loads(row["holdings"] or "[]"))
    complete, one_moment = row["complete_replicas"], bool(row["snapshot_quiet"])
    held_by = frozenset(complete) if complete is not None and one_moment else None
    if row["isr"] is None:
        return _by_disks_alone(row, settings, holdings)
    in_sync, eligible = frozenset(row["isr"]), frozenset(row["elr"] or ())
    if known.stopped:
        captured = {h.broker_id for h in holdings} if held_by is not None else set()
        in_sync = (held_by or frozenset()) | ((in_sync | eligible) - captured)
        eligible = frozenset()
    return PartitionPosture(
        topic=row["topic"],
        partition=row["partition"],
        replicas=tuple(row["replicas"] or ()),
        in_sync=in_sync,
        eligible=eligible,
        last_known=tuple(row["last_known_elr"] or ()),
        alive=frozenset(known.racks) | frozenset(row["replicas"] or ()) if known.stopped else known.alive,
        min_insync_replicas=_whole(settings.min_insync_replicas),
        unclean_allowed=settings.unclean_leader_election_enable.value == "true",
        holdings=holdings,
        log_start_offset=row["log_start_offset"],
        committed_end_offset=row["high_watermark_lower"],
        held_by=held_by,
    )


def _by_disks_alone(row: PartitionRow, settings: TopicSettings, holdings: tuple[Holding, ...]) -> PartitionPosture:
    """Where nothing tells who is in sync: what the captured disks hold, and nobody refuses or waits."""
    captured = frozenset(h.broker_id for h in holdings)
    complete = frozenset(row["complete_replicas"]) if row["complete_replicas"] is not None else captured
    return PartitionPosture(
        topic=row["topic"],
        partition=row["partition"],
        replicas=tuple(sorted(captured)),
        in_sync=complete,
        eligible=frozenset(),
        last_known=(),
        alive=captured,
        min_insync_replicas=1,
        unclean_allowed=settings.unclean_leader_election_enable.value == "true",
        holdings=holdings,
        log_start_offset=row["log_start_offset"],
        committed_end_offset=row["high_watermark_lower"],
        held_by=complete,
    )


def _posture_row(topic: str, partitions: Sequence[PartitionRow], known: PostureContext) -> PostureRow:
    settings = known.settings[topic]
    in_sync = [len(row["isr"]) for row in partitions if row["isr"] is not None]
    # Without an assignment on record: the replicas that there are.
    replicas = [row["replicas"] or row["captured_replicas"] for row in partitions]
    fewest = min(map(len, replicas))
    least = _whole(settings.min_insync_replicas)
    copies = min(least, fewest)
    spreads = [_racks_of(of_partition, known.racks) for of_partition in replicas]
    below = [
        row for row, held in zip(partitions, replicas, strict=True) if len(row["isr"] or ()) < min(least, len(held))
    ]
    in_one_rack = [
        held
        for held, spread in zip(replicas, spreads, strict=True)
        if len(held) > 1 and spread is not None and len(spread) == 1
    ]
    racks = {rack for rack in known.racks.values() if rack is not None}
    return {
        "topic": topic,
        "topic_id": partitions[0]["topic_id"],
        "partition_count": len(partitions),
        "replication_factor": fewest,
        "min_insync_replicas": least,
        "min_insync_replicas_source": settings.min_insync_replicas.source,
        "unclean_leader_election_enable": settings.unclean_leader_election_enable.value == "true",
        "unclean_leader_election_source": settings.unclean_leader_election_enable.source,
        "acknowledged_copies": copies,
        "refusal_after": fewest - copies,
        "loss_after": copies - 1,
        "eligible_leader_replicas": known.eligible_leader_replicas,
        "smallest_isr": min(in_sync, default=None),
        "partitions_below_minimum": None if known.stopped or not in_sync else len(below),
        "rack_count": None if None in spreads else min(len(s) for s in spreads if s is not None),
        "one_rack_partitions": len(in_one_rack) if len(racks) > 1 else 0,
        "cluster_stopped": known.stopped,
    }


def _racks_of(replicas: Iterable[int], racks: Mapping[int, str | None]) -> frozenset[str] | None:
    """The racks of a partition's replicas; None where one is not known."""
    found = [racks.get(b) for b in replicas]
    return None if None in found else frozenset(r for r in found if r is not None)


def _whole(config: EffectiveConfig) -> int:
    """A number that Kafka takes, at least 1; what is none cannot be in force."""
    return max(1, int(config.value)) if config.value.isascii() and config.value.isdigit() else 1
