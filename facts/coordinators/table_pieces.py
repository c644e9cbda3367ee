"""A coordinator's table in pieces of bounded size, so that a million groups are never one value.

In: a `CoordinatorTable`. Out: tables each of which has a stretch of its keys, and the table again. The rule that must
hold: what comes back is equal, its keys in the same order. A key with a long past (members by the thousand, decisions
of years) is in several pieces, too. A small table is its own only piece.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final, TypeVar

from tidegauge.facts.coordinators.group_history import GroupHistory
from tidegauge.facts.coordinators.history import CoordinatorHistory, Reached
from tidegauge.facts.coordinators.share_history import ShareHistory
from tidegauge.facts.coordinators.tables import CoordinatorTable
from tidegauge.facts.coordinators.transactional_ids import Decision, Seen, TransactionalIdHistory
from tidegauge.kafka_log.coordinator_records import RemoteSegment, TransactionState

K = TypeVar("K")
V = TypeVar("V")

_OF_KEYS: Final = ("latest", "pending_epochs", "leading_markers", "settled_at", "courses")
_OF_KEYS_PAST: Final = ("share_states", "reached")
"""Fields with a value a key, of a table and of its history, whose values are small."""


def pieces_of(table: CoordinatorTable, room: int) -> Iterator[CoordinatorTable]:
    """The table in pieces of so many entries; a value that is larger alone, such as a transaction over thousands of
    partitions, is alone in its piece.
    """
    if _is_small(table, room):
        yield table
        return
    past = table.history
    told = CoordinatorHistory(first_offset=past.first_offset, last_offset=past.last_offset, holes=past.holes)
    yield CoordinatorTable(unreadable=table.unreadable, history=told)
    for name in _OF_KEYS:
        for stretch in _stretches(getattr(table, name).items(), room):
            yield _with(CoordinatorTable(), name, dict(stretch))
    for producer_id, values in table.pending.items():
        for pending in _stretches(values.items(), room):
            yield CoordinatorTable(pending={producer_id: dict(pending)})
    for forgotten in _stretches(((key, None) for key in table.forgotten), room):
        yield CoordinatorTable(forgotten={key for key, _ in forgotten})
    for name in _OF_KEYS_PAST:
        for stretch in _stretches(getattr(past, name).items(), room):
            yield CoordinatorTable(history=_with(CoordinatorHistory(), name, dict(stretch)))
    ids = ((key, part) for key, of_id in past.transactional_ids.items() for part in _of_id(of_id, room))
    for some in _stretches(ids, room):
        yield CoordinatorTable(history=CoordinatorHistory(transactional_ids=dict(some)))
    groups = ((key, part) for key, group in past.groups.items() for part in _of_group(group, room))
    for of_groups in _stretches(groups, room):
        yield CoordinatorTable(history=CoordinatorHistory(groups=dict(of_groups)))


def whole_of(pieces: Iterable[CoordinatorTable]) -> CoordinatorTable:
    """The table of these pieces, which are in order. The first one is taken over."""
    given = iter(pieces)
    whole = next(given)
    for piece in given:
        for name in (*_OF_KEYS, "forgotten"):
            getattr(whole, name).update(getattr(piece, name))
        # Whoever has something pending has an epoch, and of some a tombstone took all of it back.
        for producer_id in piece.pending_epochs:
            whole.pending.setdefault(producer_id, {})
        for producer_id, values in piece.pending.items():
            whole.pending.setdefault(producer_id, {}).update(values)
        for name in _OF_KEYS_PAST:
            getattr(whole.history, name).update(getattr(piece.history, name))
        for transactional_id, past in piece.history.transactional_ids.items():
            of_id = whole.history.transactional_ids.setdefault(transactional_id, past)
            if of_id is not past:
                of_id.decisions += past.decisions
        for name, group in piece.history.groups.items():
            known = whole.history.groups.setdefault(name, group)
            if known is not group:
                known.tracks.update(group.tracks)
                known.members.update(group.members)
    return whole


def _with(value: V, name: str, stretch: Mapping[object, object]) -> V:
    setattr(value, name, stretch)
    return value


def _is_small(table: CoordinatorTable, room: int) -> bool:
    past = table.history
    values = chain.from_iterable(getattr(table, name).values() for name in _OF_KEYS)
    pasts = chain.from_iterable(each.values() for each in (past.share_states, past.reached, past.transactional_ids))
    left = room - len(table.pending) - len(table.forgotten)
    for value in chain(values, *(of_one.values() for of_one in table.pending.values()), pasts, past.groups.values()):
        left -= _weight(value)
        if left < 0:
            return False
    return True


def _stretches(items: Iterable[tuple[K, V]], room: int) -> Iterator[list[tuple[K, V]]]:
    """Items in lists of so much weight, no key twice in one."""
    waiting: list[tuple[K, V]] = []
    left = room
    for key, value in items:
        weight = _weight(value)
        if waiting and (weight > left or waiting[-1][0] == key):
            yield waiting
            waiting, left = [], room
        waiting.append((key, value))
        left -= weight
    if waiting:
        yield waiting


def _weight(value: object) -> int:
    """How many entries a value is as large as, about."""
    match value:
        case (int(), TransactionState() | RemoteSegment() as said):
            return _weight(said)
        case TransactionState():
            return 1 + len(value.partitions)
        case RemoteSegment():
            return 1 + len(value.leader_epochs)
        case TransactionalIdHistory():
            seen: list[Seen | None] = [value.first, value.last, value.before_last, value.doubtful, *value.newest]
            decided = sum(1 + len(d.partitions) for d in value.decisions)
            return decided + sum(_weight(s.value) for s in seen if s is not None)
        case GroupHistory():
            return 1 + len(value.tracks) + len(value.members) + len(value.regressions_kept)
        case ShareHistory():
            return 1 + len(value.completed) + len(value.reached) + len(value.faults)
        case Reached():
            return 1 + len(value.offsets)
    return 1


def _of_id(of_id: TransactionalIdHistory, room: int) -> Iterator[TransactionalIdHistory]:
    """One transactional id, its decisions in stretches; only the first part tells more than these."""
    if _weight(of_id) <= room:
        yield of_id
        return
    bare = replace(of_id, decisions=[], newest=[], broken_steps=[])
    yield replace(of_id, decisions=[])
    left = room
    waiting: list[Decision] = []
    for decision in of_id.decisions:
        weight = 1 + len(decision.partitions)
        if waiting and weight > left:
            yield replace(bare, decisions=waiting)
            waiting, left = [], room
        waiting.append(decision)
        left -= weight
    yield replace(bare, decisions=waiting)


def _of_group(group: GroupHistory, room: int) -> Iterator[GroupHistory]:
    """One group, its members in stretches; only the first part tells more than these."""
    if _weight(group) <= room:
        yield group
        return
    bare = replace(group, tracks={}, members={}, regressions_kept=[])
    yield replace(group, tracks={}, members={})
    for tracks in _stretches(group.tracks.items(), room):
        yield replace(bare, tracks=dict(tracks))
    for members in _stretches(group.members.items(), room):
        yield replace(bare, members=dict(members))
