"""The loss ledger in the store: what published runs tell and show in, `loss_ledger` and `loss_stretch` out.

What a run tells is its losses; what it shows is which log each replica of such a partition has (`loss_life` says what
that proves). The rule that must hold: what was carried once stays, whatever becomes of the run. A run about an older
snapshot that is carried late is held against what newer ones show, as far as their facts are still there.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from psycopg2.extras import Json, execute_values

from tidegauge.store.connection import NamedValues, by_column
from tidegauge.store.identity import LOCK
from tidegauge.store.loss_life import (
    RANK,
    Decided,
    EpochSpan,
    FirstWord,
    LatestWord,
    LossKey,
    LossRow,
    LossState,
    Moment,
    PartitionSight,
    Seen,
    Stretch,
    ToldRange,
    merged,
    told_stretches,
    with_sight,
)

Ledger = dict[LossKey, tuple[Stretch, ...]]

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('tidegauge:losses:' || %s, 0))"
"""What carries runs and what decides losses (`decide_loss`) go one after the other."""
_NEW_RUNS: Final = """
SELECT captured_at, snapshot_id, run_id FROM tidegauge.audit_run
WHERE cluster = %(cluster)s AND ((status = 'published' AND NOT losses_carried) OR run_id = %(run_id)s)
"""
_LATER_RUNS: Final = """
SELECT captured_at, snapshot_id, run_id FROM tidegauge.audit_run
WHERE cluster = %(cluster)s AND status = 'published' AND losses_carried
  AND (captured_at, snapshot_id) > (%(at)s, %(id)s)
"""
_CARRIED: Final = "UPDATE tidegauge.audit_run SET losses_carried = true WHERE run_id = ANY(%s)"
_KNOWN: Final = """
SELECT l.topic, l.topic_id, l.partition, l.leader_epoch, s.start_offset, s.end_offset, s.held_by, s.cause,
       s.groups_affected, s.life, s.decision_id, s.decided_state, s.decided_back_at
FROM tidegauge.loss_ledger l JOIN tidegauge.loss_stretch s USING (loss_id) WHERE l.cluster = %s
ORDER BY l.loss_id, s.start_offset
"""
_TOLD: Final = """
SELECT l.topic, l.partition, l.start_offset, l.end_offset, l.records, l.leader_epoch, l.held_by, l.state,
       coalesce(l.declared_committed, 0) AS declared_committed, l.cause, l.groups_affected,
       coalesce((SELECT max(p.topic_id) FROM tidegauge.partitions p
                 WHERE p.run_id = l.run_id AND p.topic = l.topic),
                (SELECT k.topic_id FROM tidegauge.loss_ledger k
                 WHERE k.cluster = %(cluster)s AND k.topic = l.topic AND k.topic_id IS NOT NULL LIMIT 1)) AS topic_id
FROM tidegauge.loss l WHERE l.run_id = %(run_id)s
"""
_PARTITIONS: Final = """
SELECT topic, partition, topic_id, leader_id, leader_epoch, replicas, high_watermark_lower
FROM tidegauge.partitions WHERE run_id = %(run_id)s AND topic = ANY(%(topics)s)
"""
_LEADERS_LOGS: Final = """
SELECT topic, partition, topic_id, log_start_offset FROM tidegauge.replicas
WHERE run_id = %(run_id)s AND topic = ANY(%(topics)s) AND is_leader AND NOT coalesce(is_future, false)
"""
_SPANS: Final = """
SELECT topic, partition, broker_id, leader_epoch, start_offset, end_offset FROM tidegauge.epoch_spans
WHERE run_id = %(run_id)s AND topic = ANY(%(topics)s) AND leader_epoch IS NOT NULL AND batch_count > 0
  AND start_offset < end_offset
"""
_SOUND: Final = """
SELECT s.topic, s.partition, s.first_offset, s.last_offset + 1 AS end_offset FROM tidegauge.segments s
JOIN tidegauge.partitions p ON p.run_id = s.run_id AND p.topic = s.topic AND p.partition = s.partition
WHERE s.run_id = %(run_id)s AND s.topic = ANY(%(topics)s) AND s.broker_id = p.leader_id AND s.crc_errors = 0
  AND s.record_count = s.last_offset - s.first_offset + 1
"""
"""Segments of the leader in which each offset has a record: of one that a cleaner, or damage, left with fewer, nothing
tells here which are missing.
"""
_BROKERS: Final = """
SELECT b.broker_id FROM tidegauge.brokers b JOIN tidegauge.audit_run r ON r.run_id = b.run_id
WHERE b.run_id = %(run_id)s AND b.captured AND b.broker_id IS NOT NULL AND coalesce(b.uncaptured_directories, 0) = 0
  AND NOT EXISTS (SELECT FROM jsonb_array_elements(coalesce(r.coverage -> 'unread', '[]')) AS unread
                  WHERE unread ->> 'path' !~ '^broker-[0-9]+/'
                     OR starts_with(unread ->> 'path', 'broker-' || b.broker_id || '/'))
"""
_KEEP: Final = """
INSERT INTO tidegauge.loss_ledger (loss_id, cluster, topic, topic_id, partition, leader_epoch, source)
SELECT %s, %s, %s, %s, %s, %s, source FROM tidegauge.audit_run WHERE run_id = %s ON CONFLICT (loss_id) DO NOTHING
"""
_FORGET: Final = "DELETE FROM tidegauge.loss_stretch WHERE loss_id = ANY(%s)"
_WRITE: Final = """
INSERT INTO tidegauge.loss_stretch (loss_id, start_offset, end_offset, records, declared_committed, state, state_at,
    first_told_at, last_told_at, undecided, held_by, cause, groups_affected, life, back_at, decision_id, decided_state,
    decided_back_at) VALUES %s
"""


@dataclass(frozen=True, slots=True)
class _Place:
    topic: str
    partition: int


def carry_losses(cursor: Any, cluster: str, run_id: str | None) -> None:
    """Carries what a cluster's published runs tell and show into the ledger, as far as it does not stand there, in the
    caller's transaction; `run_id` counts as published. The caller holds the cluster's lock.
    """
    cursor.execute(_NEW_RUNS, {"cluster": cluster, "run_id": run_id})
    new = sorted(Moment(captured_at=at, snapshot_id=snapshot, run_id=run) for at, snapshot, run in cursor.fetchall())
    if not new:
        return
    cursor.execute(_LOCK, (cluster,))
    before = _known(cursor, cluster)
    ledger = dict(before)
    touched: set[LossKey] = set()
    for moment in new:
        for key, stretches in _told(cursor, cluster, moment):
            ledger[key] = merged(ledger.get(key, ()), stretches)
            touched.add(key)
    waiting = {key for key, of in ledger.items() if any(s.state is not LossState.BACK for s in of)}
    for moment in new:
        _look(cursor, ledger, moment, waiting)
    if touched:
        first = new[0]
        cursor.execute(_LATER_RUNS, {"cluster": cluster, "at": first.captured_at, "id": first.snapshot_id})
        for at, snapshot_id, later in cursor.fetchall():
            _look(cursor, ledger, Moment(captured_at=at, snapshot_id=snapshot_id, run_id=later), touched)
    _write(cursor, {key: of for key, of in ledger.items() if before.get(key) != of})
    cursor.execute(_CARRIED, ([moment.run_id for moment in new],))


def loss_ids(cursor: Any, cluster: str, run_id: str) -> Mapping[tuple[str, int, int | None], str]:
    """The ids of the losses that a run tells of, by topic, partition and leader epoch."""
    cursor.execute(_TOLD, {"cluster": cluster, "run_id": run_id})
    keys = (_key(cluster, row) for row in list(by_column(cursor)))
    return {(key.topic, key.partition, key.leader_epoch): key.loss_id for key in keys}


def carry_all_losses(cursor: Any) -> None:
    """The same for every cluster: a store of before has no ledger, and runs that tell of losses."""
    cursor.execute(
        "SELECT DISTINCT cluster FROM tidegauge.audit_run WHERE status = 'published' AND NOT losses_carried ORDER BY 1"
    )
    for (cluster,) in cursor.fetchall():
        cursor.execute(LOCK, (cluster,))
        carry_losses(cursor, cluster, None)


def _told(cursor: Any, cluster: str, moment: Moment) -> Iterator[tuple[LossKey, tuple[Stretch, ...]]]:
    """What one run tells, a loss at a time."""
    cursor.execute(_TOLD, {"cluster": cluster, "run_id": moment.run_id})
    found: dict[LossKey, list[NamedValues]] = {}
    for row in list(by_column(cursor)):
        key = _key(cluster, row)
        if row["start_offset"] < row["end_offset"]:
            found.setdefault(key, []).append(row)
    sights = _sights(cursor, moment.run_id, found)
    for key, rows in found.items():
        _, sight = sights.get(_Place(key.topic, key.partition), (None, PartitionSight()))
        told = [_loss_row(row, sight.spans) for row in rows]
        yield key, told_stretches(told, moment, leader_epoch=sight.leader_epoch)


def _key(cluster: str, row: NamedValues) -> LossKey:
    return LossKey(
        cluster=cluster,
        topic=row["topic"],
        topic_id=row["topic_id"],
        partition=row["partition"],
        leader_epoch=row["leader_epoch"],
    )


def _loss_row(row: NamedValues, spans: Sequence[EpochSpan]) -> LossRow:
    own = (
        s.leader_epoch
        for s in spans
        if s.broker_id in row["held_by"] and s.start_offset < row["end_offset"] and row["start_offset"] < s.end_offset
    )
    return LossRow(
        lowest_epoch=min(own, default=None),
        start_offset=row["start_offset"],
        end_offset=row["end_offset"],
        records=row["records"],
        declared_committed=row["declared_committed"],
        state=LossState(row["state"]),
        held_by=tuple(sorted(row["held_by"])),
        cause=row["cause"] or "",
        groups=tuple(sorted(row["groups_affected"])),
    )


def _look(cursor: Any, ledger: Ledger, moment: Moment, keys: Collection[LossKey]) -> None:
    """Takes into the ledger what one run shows of these losses."""
    sights = _sights(cursor, moment.run_id, keys)
    for key in keys:
        topic_id, sight = sights.get(_Place(key.topic, key.partition), (None, PartitionSight()))
        if topic_id == key.topic_id:
            ledger[key] = with_sight(ledger[key], key, moment, sight)


def _sights(cursor: Any, run_id: str, keys: Collection[LossKey]) -> dict[_Place, tuple[str | None, PartitionSight]]:
    """What a run shows of the partitions of some losses, with the id of the topic that it is of."""
    if not keys:
        return {}
    asked = {"run_id": run_id, "topics": sorted({key.topic for key in keys})}

    def rows(query: str) -> Mapping[_Place, Sequence[NamedValues]]:
        cursor.execute(query, asked)
        found: dict[_Place, list[NamedValues]] = {}
        for row in by_column(cursor):
            found.setdefault(_Place(row["topic"], row["partition"]), []).append(row)
        return found

    cursor.execute(_BROKERS, asked)
    read = frozenset(broker for (broker,) in cursor.fetchall())
    partitions, logs, spans, sound = (rows(query) for query in (_PARTITIONS, _LEADERS_LOGS, _SPANS, _SOUND))
    return {
        place: (told["topic_id"], _sight(told, logs.get(place, ()), spans.get(place, ()), sound.get(place, ()), read))
        for place, (told, *_) in partitions.items()
    }


def _sight(
    partition: NamedValues,
    logs: Iterable[NamedValues],
    spans: Iterable[NamedValues],
    sound: Iterable[NamedValues],
    read: frozenset[int],
) -> PartitionSight:
    found = tuple(
        EpochSpan(
            broker_id=s["broker_id"],
            leader_epoch=s["leader_epoch"],
            start_offset=s["start_offset"],
            end_offset=s["end_offset"],
        )
        for s in spans
    )
    log = next((x for x in logs if x["topic_id"] in (None, partition["topic_id"])), None)
    epoch = partition["leader_epoch"]
    return PartitionSight(
        leader_id=partition["leader_id"] if log is not None else None,
        leader_epoch=max((-1 if epoch is None else epoch, *(s.leader_epoch for s in found))),
        log_start_offset=log["log_start_offset"] if log is not None else None,
        high_watermark=partition["high_watermark_lower"],
        spans=found,
        sound=tuple((s["first_offset"], s["end_offset"]) for s in sound),
        assigned=frozenset(partition["replicas"] or ()),
        read=read,
    )


def _known(cursor: Any, cluster: str) -> Ledger:
    cursor.execute(_KNOWN, (cluster,))
    found: dict[LossKey, list[Stretch]] = {}
    for row in by_column(cursor):
        key = _key(cluster, row)
        found.setdefault(key, []).append(_stretch(row))
    return {key: tuple(stretches) for key, stretches in found.items()}


def _stretch(row: NamedValues) -> Stretch:
    life = row["life"]
    told, latest, absent, back = life["told"], life["latest"], life["absent"], life["back"]
    return Stretch(
        start_offset=row["start_offset"],
        end_offset=row["end_offset"],
        told=ToldRange(**told),
        latest=LatestWord(
            moment=_moment(latest["moment"]),
            rank=latest["rank"],
            held_by=tuple(row["held_by"]),
            cause=row["cause"],
            groups=tuple(row["groups_affected"]),
        ),
        holders=frozenset(life["holders"]),
        first_word=FirstWord(moment=_moment(life["first"]["moment"]), leader_epoch=life["first"]["leader_epoch"]),
        lowest_epoch=life["lowest_epoch"],
        seen={LossState(state): _seen(seen) for state, seen in life["seen"].items()},
        absent=None if absent is None else _seen(absent),
        back=None if back is None else _moment(back),
        decided=None
        if row["decision_id"] is None
        else Decided(
            decision_id=row["decision_id"], state=LossState(row["decided_state"]), back_at=row["decided_back_at"]
        ),
    )


def _moment(plain: Mapping[str, str]) -> Moment:
    return Moment(
        captured_at=datetime.fromisoformat(plain["captured_at"]),
        snapshot_id=plain["snapshot_id"],
        run_id=plain["run_id"],
    )


def _seen(plain: Mapping[str, Mapping[str, str]]) -> Seen:
    return Seen(first=_moment(plain["first"]), last=_moment(plain["last"]))


def _plain_moment(moment: Moment) -> dict[str, str]:
    return {
        "captured_at": moment.captured_at.isoformat(),
        "snapshot_id": moment.snapshot_id,
        "run_id": moment.run_id,
    }


def _plain_seen(seen: Seen) -> dict[str, dict[str, str]]:
    return {"first": _plain_moment(seen.first), "last": _plain_moment(seen.last)}


def _life(stretch: Stretch) -> dict[str, object]:
    told, first = stretch.told, stretch.first_word
    return {
        "told": {
            "start_offset": told.start_offset,
            "end_offset": told.end_offset,
            "records": told.records,
            "declared_committed": told.declared_committed,
        },
        "latest": {"moment": _plain_moment(stretch.latest.moment), "rank": stretch.latest.rank},
        "holders": sorted(stretch.holders),
        "first": {"moment": _plain_moment(first.moment), "leader_epoch": first.leader_epoch},
        "lowest_epoch": stretch.lowest_epoch,
        "seen": {s.value: _plain_seen(stretch.seen[s]) for s in sorted(stretch.seen, key=lambda s: RANK[s])},
        "absent": None if stretch.absent is None else _plain_seen(stretch.absent),
        "back": None if stretch.back is None else _plain_moment(stretch.back),
    }


def _write(cursor: Any, changed: Mapping[LossKey, Sequence[Stretch]]) -> None:
    for key, stretches in changed.items():
        run_id = stretches[0].latest.moment.run_id
        values = (key.loss_id, key.cluster, key.topic, key.topic_id, key.partition, key.leader_epoch, run_id)
        cursor.execute(_KEEP, values)
    cursor.execute(_FORGET, ([key.loss_id for key in changed],))
    rows = [_values(key, stretch) for key, stretches in changed.items() for stretch in stretches]
    execute_values(cursor, _WRITE, rows, page_size=1000)


def _values(key: LossKey, stretch: Stretch) -> tuple[object, ...]:
    decided = stretch.decided
    return (
        key.loss_id,
        stretch.start_offset,
        stretch.end_offset,
        stretch.records,
        stretch.declared_committed,
        stretch.state.value,
        stretch.state_since.captured_at,
        stretch.first_word.moment.captured_at,
        stretch.last_told.captured_at,
        stretch.is_undecided,
        list(stretch.latest.held_by),
        stretch.latest.cause,
        list(stretch.latest.groups),
        Json(_life(stretch)),
        None if stretch.back is None else stretch.back.captured_at,
        None if decided is None else decided.decision_id,
        None if decided is None else decided.state.value,
        None if decided is None else decided.back_at,
    )
