"""Breadth first through all reachable states.

In: a model and its constants. Out: `Exploration`: how many distinct states there are, how deep, and the shortest way to
a state that violates StrongIsr. Memory is what the states' words, their parents and a hash table take, some 50 bytes a
state; nothing of a state is a Python object.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from tidegauge.sim_engine.explore.layout import Constants, Layout, initial_fields, layout_of
from tidegauge.sim_engine.explore.rules import MOST_SUCCESSORS, Action, Model, explore_from, pack, slot_of, unpack

_FIRST_STATES: Final = 1 << 15
_CHUNK: Final = 1 << 18
"""States expanded between two looks at the clock of whoever follows the progress."""

Progress = Callable[[int, int, int], None]
"""Distinct states so far, states expanded so far, depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action on the way to a state: its two numbers as `rules.expand` gives them, and the fields after it."""

    action: Action
    first: int
    second: int
    fields: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What was found. `complete`: every reachable state was expanded; else `max_states` ended it."""

    model: Model
    constants: Constants
    distinct_states: int
    transitions: int
    depth: int
    complete: bool
    violating_states: int
    shortest_violation: tuple[Step, ...] | None


class Explorer:
    """The states found so far; `explore` runs to the end."""

    def __init__(self, model: Model, constants: Constants) -> None:
        self._model = model
        self._layout = layout_of(constants)
        self._allocate(_FIRST_STATES)
        self._counters = np.array([0, 0, 0, -1], np.int64)
        words = np.zeros(self._layout.words, np.uint64)
        pack(initial_fields(self._layout), self._kernel_layout, words)
        self._states[0] = words
        self._table[slot_of(self._table, self._states, words)] = 0
        self._counters[0] = 1

    @property
    def layout(self) -> Layout:
        """Where the fields of a state lie."""
        return self._layout

    def explore(self, *, max_states: int | None = None, progress: Progress | None = None) -> Exploration:
        """Explores breadth first, until there is nothing new or `max_states` are known."""
        layout = self._layout
        fields, following = np.zeros(layout.fields, np.int64), np.zeros(layout.fields, np.int64)
        constants = layout.constants
        numbers = (
            constants.replicas, constants.log_size, constants.max_records, constants.max_leader_epoch,
            layout.replicas_at, layout.replica_fields,
        )  # fmt: skip
        done, depth, level_end = 0, 0, 1
        while done < self._known and (max_states is None or self._known < max_states):
            if done == level_end:
                depth, level_end = depth + 1, self._known
            stop = min(level_end, done + _CHUNK)
            words = np.zeros(layout.words, np.uint64)
            known = (self._table, self._states, self._parents, self._actions, words)
            reached = explore_from(
                int(self._model), numbers, self._kernel_layout, done, stop, known, fields, following, self._counters
            )
            if reached < stop:
                self._grow()
            done = reached
            if progress is not None:
                progress(self._known, done, depth)
        first_violation = int(self._counters[3])
        return Exploration(
            model=self._model,
            constants=constants,
            distinct_states=self._known,
            transitions=int(self._counters[1]),
            depth=depth,
            complete=done == self._known,
            violating_states=int(self._counters[2]),
            shortest_violation=tuple(self.way_to(first_violation)) if first_violation >= 0 else None,
        )

    def way_to(self, index: int) -> list[Step]:
        """The shortest sequence of actions from the first state to the one with this number."""
        steps = []
        while index != 0:
            code = int(self._actions[index])
            steps.append(
                Step(action=Action(code >> 8), first=code >> 4 & 15, second=code & 15, fields=self.fields_of(index))
            )
            index = int(self._parents[index])
        return steps[::-1]

    def fields_of(self, index: int) -> NDArray[np.int64]:
        """The fields of a state, in the order of `layout`."""
        fields = np.zeros(self._layout.fields, np.int64)
        unpack(self._states[index], self._kernel_layout, fields)
        return fields

    def states(self) -> Iterator[NDArray[np.int64]]:
        """The fields of every state known, in the order they were found."""
        for index in range(self._known):
            yield self.fields_of(index)

    @property
    def bytes_in_use(self) -> int:
        """What the states and all that belongs to them take."""
        return sum(array.nbytes for array in (self._states, self._parents, self._actions, self._table))

    @property
    def _known(self) -> int:
        return int(self._counters[0])

    @property
    def _kernel_layout(self) -> tuple[Any, Any, Any]:
        return self._layout.field_words, self._layout.field_shifts, self._layout.field_masks

    def _allocate(self, size: int) -> None:
        self._states = np.zeros((size, self._layout.words), np.uint64)
        self._parents = np.zeros(size, np.int32)
        self._actions = np.zeros(size, np.uint16)
        self._table = np.full(2 * size, -1, np.int32)

    def _grow(self) -> None:
        old_states, old_parents, old_actions, known = self._states, self._parents, self._actions, self._known
        assert known + MOST_SUCCESSORS < np.iinfo(np.int32).max // 2, "more states than their numbers have room for"
        del self._table
        self._allocate(2 * len(old_states))
        self._states[:known] = old_states[:known]
        self._parents[:known] = old_parents[:known]
        self._actions[:known] = old_actions[:known]
        _insert_all(self._table, self._states, known)


@numba.njit(cache=True)
def _insert_all(table: Any, states: Any, known: int) -> None:
    for index in range(known):
        table[slot_of(table, states, states[index])] = index
