"""The specification's actions, compiled: one state's fields in, its successors handed to the set of known states.

In: the fields of a state (`layout`), the constants, the model. Out: for each enabled action the fields of the next
state, packed and looked up. An action is enabled exactly where the specification's formula has a solution, odd
solutions included (an old-style leader with an empty ISR moves its high watermark past its log's end).

                     on a new leader, a follower …                          who is caught up is judged by …
    …TruncateToHigh… cuts its log at its own high watermark                 offsets
    Kip101           asks where its last epoch ended at the leader          offsets
    Kip279           cuts after the last entry that both have               offsets
    Kip320FirstTry   keeps its log; cuts when a fetch shows another epoch   the epoch of the entry before
    Kip320           as Kip279, if the leader is already of that epoch      the replica's own leader epoch
"""

from enum import IntEnum
from typing import Any, Final

import numba
import numpy as np

from tidegauge.sim_engine.explore.layout import (
    END,
    ENTRIES,
    EPOCH,
    HIGH_WATERMARK,
    ISR,
    LEADER,
    NEXT_EPOCH,
    NEXT_RECORD,
    QUORUM_ISR,
    QUORUM_LEADER,
    REQUESTS,
)


class Model(IntEnum):
    """Five generations of Kafka's truncation, by the names of the specification's modules; the first has two."""

    KafkaTruncateToHighWatermark = 0
    TruncateToHighWatermark = 0
    Kip101 = 1
    Kip279 = 2
    Kip320FirstTry = 3
    Kip320 = 4


class Action(IntEnum):
    """What happened between two states. Each carries two small numbers, as `expand` says."""

    CONTROLLER_SHRINK_ISR = 0
    CONTROLLER_ELECT_LEADER = 1
    BECOME_LEADER = 2
    LEADER_WRITE = 3
    LEADER_SHRINK_ISR = 4
    LEADER_EXPAND_ISR = 5
    LEADER_INCREMENT_HIGH_WATERMARK = 6
    BECOME_FOLLOWER = 7
    FOLLOWER_FETCH = 8
    FOLLOWER_TRUNCATE = 9


_BY_OFFSET: Final = int(Model.Kip279)
_TO_HIGH_WATERMARK: Final = int(Model.KafkaTruncateToHighWatermark)
_KIP_101: Final = int(Model.Kip101)
_FIRST_TRY: Final = int(Model.Kip320FirstTry)
_KIP_320: Final = int(Model.Kip320)

_SHRINK: Final = int(Action.CONTROLLER_SHRINK_ISR)
_ELECT: Final = int(Action.CONTROLLER_ELECT_LEADER)
_LEAD: Final = int(Action.BECOME_LEADER)
_WRITE: Final = int(Action.LEADER_WRITE)
_LEADER_SHRINK: Final = int(Action.LEADER_SHRINK_ISR)
_LEADER_EXPAND: Final = int(Action.LEADER_EXPAND_ISR)
_INCREMENT: Final = int(Action.LEADER_INCREMENT_HIGH_WATERMARK)
_FOLLOW: Final = int(Action.BECOME_FOLLOWER)
_FETCH: Final = int(Action.FOLLOWER_FETCH)
_TRUNCATE: Final = int(Action.FOLLOWER_TRUNCATE)

_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)

MOST_SUCCESSORS: Final = 512
"""No state of 7 replicas and 8 epochs has more: what must be free before a state is expanded."""


@numba.njit(cache=True, inline="always")
def action_code(action: int, first: int, second: int) -> int:
    """An action and its two numbers in 16 bits."""
    return (action << 8) | (first << 4) | second


@numba.njit(cache=True)
def unpack(words: Any, layout: Any, fields: Any) -> None:
    """A state's words to its fields."""
    field_words, shifts, masks = layout[0], layout[1], layout[2]
    for i in range(len(field_words)):
        fields[i] = np.int64((words[field_words[i]] >> shifts[i]) & masks[i])


@numba.njit(cache=True)
def pack(fields: Any, layout: Any, words: Any) -> None:
    """A state's fields to its words."""
    field_words, shifts = layout[0], layout[1]
    words[:] = np.uint64(0)
    for i in range(len(field_words)):
        words[field_words[i]] |= np.uint64(fields[i]) << shifts[i]


@numba.njit(cache=True)
def slot_of(table: Any, states: Any, words: Any) -> Any:
    """Where the hash table holds this state, or the free slot where it belongs."""
    mixed = _GOLDEN
    for word in words:
        mixed = (mixed ^ word) * _MIX_1
        mixed ^= mixed >> np.uint64(29)
        mixed *= _MIX_2
        mixed ^= mixed >> np.uint64(32)
    mask = len(table) - 1
    slot = np.int64(mixed & np.uint64(mask))
    while True:
        index = table[slot]
        if index < 0:
            return slot
        same = True
        for i in range(len(words)):
            if states[index, i] != words[i]:
                same = False
                break
        if same:
            return slot
        slot = (slot + 1) & mask


@numba.njit(cache=True)
def _emit(fields: Any, code: int, parent: int, known: Any, layout: Any, counters: Any) -> None:
    """Keeps a successor if it is new. `known`: hash table, states, parents, actions, words to work with."""
    table, states, parents, actions, words = known
    pack(fields, layout, words)
    slot = slot_of(table, states, words)
    counters[1] += 1
    if table[slot] < 0:
        index = counters[0]
        table[slot] = index
        states[index, :] = words
        parents[index] = parent
        actions[index] = code
        counters[0] = index + 1


@numba.njit(cache=True)
def _first_not_matching(fields: Any, leader: int, follower: int) -> int:
    """One past the last offset at which both logs hold the same entry (FirstNonMatchingOffsetFromTail)."""
    for offset in range(min(fields[leader + END], fields[follower + END]) - 1, -1, -1):
        at = ENTRIES + 2 * offset
        if fields[leader + at] == fields[follower + at] and fields[leader + at + 1] == fields[follower + at + 1]:
            return offset + 1
    return 0


@numba.njit(cache=True)
def _kip101_offset(fields: Any, leader: int, follower: int) -> int:
    """Where the follower's last epoch ended at the leader (LookupOffsetForEpoch)."""
    end = fields[follower + END]
    if end == 0:
        return 0
    leader_end = fields[leader + END]
    if leader_end == 0:
        return int(fields[follower + HIGH_WATERMARK])
    asked = fields[follower + ENTRIES + 2 * (end - 1) + 1]
    if fields[leader + ENTRIES + 2 * (leader_end - 1) + 1] == asked:
        return int(leader_end)
    for offset in range(leader_end):
        if fields[leader + ENTRIES + 2 * offset + 1] > asked:
            return offset
    return int(fields[follower + HIGH_WATERMARK])


@numba.njit(cache=True)
def _truncate(fields: Any, replica: int, offset: int) -> None:
    for at in range(replica + ENTRIES + 2 * offset, replica + ENTRIES + 2 * fields[replica + END]):
        fields[at] = 0
    fields[replica + END] = offset


@numba.njit(cache=True)
def _same_epoch_before(fields: Any, leader: int, follower: int, end: int) -> bool:
    """Whether the follower has the leader's entries up to `end`, judged by the epoch of the one before it."""
    if end == 0:
        return True
    at = ENTRIES + 2 * (end - 1) + 1
    return bool(
        end <= fields[leader + END] and end <= fields[follower + END] and fields[leader + at] == fields[follower + at]
    )


@numba.njit(cache=True)
def _caught_up(model: int, fields: Any, leader: int, leader_id: int, follower: int, end: int) -> bool:
    """The models' several ideas of a follower that has everything up to `end`."""
    if fields[follower + LEADER] != leader_id + 1:
        return False
    if model == _FIRST_TRY:
        return _same_epoch_before(fields, leader, follower, end)
    if model == _KIP_320 and fields[follower + EPOCH] != fields[leader + EPOCH]:
        return False
    return bool(end == 0 or (end <= fields[leader + END] and end <= fields[follower + END]))


@numba.njit(cache=True)
def _may_expand(model: int, fields: Any, leader: int) -> bool:
    """Since KIP-320 a leader admits nobody before its high watermark has reached its own epoch."""
    if model < _FIRST_TRY:
        return True
    mark = fields[leader + HIGH_WATERMARK]
    if mark == fields[leader + END]:
        return True
    return bool(mark < fields[leader + END] and fields[leader + ENTRIES + 2 * mark + 1] == fields[leader + EPOCH])


@numba.njit(cache=True)
def breaks_strong_isr(fields: Any, replicas: int, at: int, size: int) -> bool:
    """StrongIsr is violated: below a presumed leader's high watermark a member of the quorum's ISR differs from it."""
    for leader_id in range(replicas):
        leader = at + leader_id * size
        if fields[leader + LEADER] != leader_id + 1:
            continue
        mark = fields[leader + HIGH_WATERMARK]
        for other_id in range(replicas):
            if not fields[QUORUM_ISR] >> other_id & 1:
                continue
            other = at + other_id * size
            if mark > fields[leader + END] or mark > fields[other + END]:
                return True
            for i in range(ENTRIES, ENTRIES + 2 * mark):
                if fields[leader + i] != fields[other + i]:
                    return True
    return False


@numba.njit(cache=True)
def expand(
    model: int, constants: Any, layout: Any, index: int, known: Any, fields: Any, following: Any, counters: Any
) -> None:
    """Hands every successor of the state in `fields` to `_emit`.

    An action's two numbers: the replica and the other replica, or the leader epoch of the request, or 0.
    """
    replicas, log_size, max_records, max_epoch, at, size = constants
    next_epoch, quorum_leader, quorum_isr = fields[NEXT_EPOCH], fields[QUORUM_LEADER], fields[QUORUM_ISR]
    if next_epoch <= max_epoch:
        for replica in range(replicas):
            member = quorum_isr >> replica & 1
            leads = quorum_leader == replica + 1
            if leads or member:
                following[:] = fields
                remaining = quorum_isr & ~(1 << replica)
                if leads and quorum_isr == 1 << replica:
                    remaining = quorum_isr
                leader = 0 if leads else quorum_leader
                _ask(following, next_epoch, leader, remaining)
                _emit(following, action_code(_SHRINK, replica, 0), index, known, layout, counters)
            if member and not leads:
                following[:] = fields
                _ask(following, next_epoch, replica + 1, quorum_isr)
                _emit(following, action_code(_ELECT, replica, 0), index, known, layout, counters)
    for epoch in range(next_epoch):
        leader_id = fields[REQUESTS + 2 * epoch] - 1
        if leader_id < 0:
            continue
        leader = at + leader_id * size
        isr = fields[REQUESTS + 2 * epoch + 1]
        if epoch + 1 > fields[leader + EPOCH]:
            following[:] = fields
            following[leader + EPOCH] = epoch + 1
            following[leader + LEADER] = leader_id + 1
            following[leader + ISR] = isr
            _emit(following, action_code(_LEAD, leader_id, epoch), index, known, layout, counters)
        _expand_followers(model, constants, layout, index, known, fields, following, counters, epoch)
    for leader_id in range(replicas):
        leader = at + leader_id * size
        if fields[leader + LEADER] != leader_id + 1:
            continue
        end = fields[leader + END]
        if fields[NEXT_RECORD] < max_records and end < log_size:
            following[:] = fields
            following[NEXT_RECORD] = fields[NEXT_RECORD] + 1
            following[leader + ENTRIES + 2 * end] = fields[NEXT_RECORD] + 1
            following[leader + ENTRIES + 2 * end + 1] = fields[leader + EPOCH]
            following[leader + END] = end + 1
            _emit(following, action_code(_WRITE, leader_id, 0), index, known, layout, counters)
        if quorum_leader == leader_id + 1 and fields[leader + EPOCH] == next_epoch:
            _expand_isr(model, constants, layout, index, known, fields, following, counters, leader_id)
        _expand_high_watermark(model, constants, layout, index, known, fields, following, counters, leader_id)
        _expand_fetches(model, constants, layout, index, known, fields, following, counters, leader_id)


@numba.njit(cache=True)
def _ask(following: Any, epoch: int, leader: int, isr: int) -> None:
    """The controller decides, and sends a LeaderAndIsr request (ControllerUpdateIsr)."""
    following[QUORUM_LEADER] = leader
    following[QUORUM_ISR] = isr
    following[NEXT_EPOCH] = epoch + 1
    following[REQUESTS + 2 * epoch] = leader
    following[REQUESTS + 2 * epoch + 1] = isr


@numba.njit(cache=True)
def _expand_followers(
    model: int, constants: Any, layout: Any, index: int, known: Any, fields: Any, following: Any, counters: Any,
    epoch: int,
) -> None:  # fmt: skip
    """Replicas learn from the request of `epoch` whom to follow, and cut their logs as the model has it."""
    replicas, at, size = constants[0], constants[4], constants[5]
    leader_id = fields[REQUESTS + 2 * epoch] - 1
    leader = at + leader_id * size
    for replica_id in range(replicas):
        replica = at + replica_id * size
        if replica_id == leader_id or epoch + 1 <= fields[replica + EPOCH]:
            continue
        mark = fields[replica + HIGH_WATERMARK]
        offset = fields[replica + END]
        if model == _TO_HIGH_WATERMARK:
            offset = mark
        elif model == _KIP_101:
            offset = _kip101_offset(fields, leader, replica)
        elif model != _FIRST_TRY:
            offset = _first_not_matching(fields, leader, replica)
        if model == _KIP_320 and (fields[leader + LEADER] != leader_id + 1 or fields[leader + EPOCH] != epoch + 1):
            continue
        # The specification cuts logs and never makes them longer: an offset past the end has no solution.
        if offset > fields[replica + END]:
            continue
        following[:] = fields
        if model != _FIRST_TRY:
            _truncate(following, replica, offset)
            following[replica + HIGH_WATERMARK] = min(offset, mark)
        following[replica + EPOCH] = epoch + 1
        following[replica + LEADER] = leader_id + 1
        following[replica + ISR] = fields[REQUESTS + 2 * epoch + 1]
        _emit(following, action_code(_FOLLOW, replica_id, epoch), index, known, layout, counters)


@numba.njit(cache=True)
def _expand_isr(
    model: int, constants: Any, layout: Any, index: int, known: Any, fields: Any, following: Any, counters: Any,
    leader_id: int,
) -> None:  # fmt: skip
    """The true leader takes replicas out of the ISR, or in (QuorumUpdateLeaderAndIsr)."""
    replicas, at, size = constants[0], constants[4], constants[5]
    leader = at + leader_id * size
    isr = fields[leader + ISR]
    for other_id in range(replicas):
        other = at + other_id * size
        if isr >> other_id & 1:
            if other_id == leader_id or _caught_up(model, fields, leader, leader_id, other, fields[leader + END]):
                continue
            changed, code = isr & ~(1 << other_id), action_code(_LEADER_SHRINK, leader_id, other_id)
        else:
            if not _may_expand(model, fields, leader):
                continue
            if model == _KIP_320:
                # HasFollowerReachedHighWatermark asks nothing of the leader's own log.
                if fields[other + LEADER] != leader_id + 1 or fields[other + EPOCH] != fields[leader + EPOCH]:
                    continue
                if fields[leader + HIGH_WATERMARK] > fields[other + END]:
                    continue
            elif not _caught_up(model, fields, leader, leader_id, other, fields[leader + HIGH_WATERMARK]):
                continue
            changed, code = isr | 1 << other_id, action_code(_LEADER_EXPAND, leader_id, other_id)
        following[:] = fields
        following[QUORUM_ISR] = changed
        following[leader + ISR] = changed
        _emit(following, code, index, known, layout, counters)


@numba.njit(cache=True)
def _expand_high_watermark(
    model: int, constants: Any, layout: Any, index: int, known: Any, fields: Any, following: Any, counters: Any,
    leader_id: int,
) -> None:  # fmt: skip
    """A presumed leader moves its high watermark once its own idea of the ISR is there."""
    replicas, log_size, at, size = constants[0], constants[1], constants[4], constants[5]
    leader = at + leader_id * size
    mark = fields[leader + HIGH_WATERMARK]
    if mark >= log_size or (model > _BY_OFFSET and mark >= fields[leader + END]):
        return
    for other_id in range(replicas):
        if not fields[leader + ISR] >> other_id & 1:
            continue
        other = at + other_id * size
        if model <= _BY_OFFSET:
            ready = fields[other + LEADER] == leader_id + 1 and mark < fields[other + END]
        else:
            ready = _caught_up(model, fields, leader, leader_id, other, mark + 1)
        if not ready:
            return
    following[:] = fields
    following[leader + HIGH_WATERMARK] = mark + 1
    _emit(following, action_code(_INCREMENT, leader_id, 0), index, known, layout, counters)


@numba.njit(cache=True)
def _expand_fetches(
    model: int, constants: Any, layout: Any, index: int, known: Any, fields: Any, following: Any, counters: Any,
    leader_id: int,
) -> None:  # fmt: skip
    """Followers copy one entry from a presumed leader, or cut their logs where a fetch showed another epoch."""
    replicas, at, size = constants[0], constants[4], constants[5]
    leader = at + leader_id * size
    for other_id in range(replicas):
        other = at + other_id * size
        if other_id == leader_id or fields[other + LEADER] != leader_id + 1:
            continue
        end, leader_end = fields[other + END], fields[leader + END]
        may = True
        if model == _FIRST_TRY:
            may = _same_epoch_before(fields, leader, other, end)
            at_last = ENTRIES + 2 * (end - 1) + 1
            if end > leader_end or (end > 0 and fields[leader + at_last] != fields[other + at_last]):
                offset = _first_not_matching(fields, leader, other)
                following[:] = fields
                _truncate(following, other, offset)
                following[other + HIGH_WATERMARK] = min(offset, fields[other + HIGH_WATERMARK])
                _emit(following, action_code(_TRUNCATE, other_id, leader_id), index, known, layout, counters)
        elif model == _KIP_320:
            may = fields[other + EPOCH] == fields[leader + EPOCH]
        if may and end < leader_end:
            following[:] = fields
            entry = ENTRIES + 2 * end
            following[other + entry] = fields[leader + entry]
            following[other + entry + 1] = fields[leader + entry + 1]
            following[other + END] = end + 1
            following[other + HIGH_WATERMARK] = min(fields[leader + HIGH_WATERMARK], end + 1)
            _emit(following, action_code(_FETCH, other_id, leader_id), index, known, layout, counters)


@numba.njit(cache=True)
def explore_from(
    model: int, constants: Any, layout: Any, start: int, stop: int, known: Any, fields: Any, following: Any,
    counters: Any,
) -> int:  # fmt: skip
    """Expands states `start` to `stop`, until room runs out; returns how far it came.

    `counters`: distinct states, successors met, violating states, the first of them (-1).
    """
    table, states = known[0], known[1]
    replicas, at, size = constants[0], constants[4], constants[5]
    for index in range(start, stop):
        if counters[0] + MOST_SUCCESSORS > len(states) or 2 * (counters[0] + MOST_SUCCESSORS) > len(table):
            return index
        unpack(states[index], layout, fields)
        if breaks_strong_isr(fields, replicas, at, size):
            counters[2] += 1
            if counters[3] < 0:
                counters[3] = index
        expand(model, constants, layout, index, known, fields, following, counters)
    return stop
