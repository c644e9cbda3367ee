"""A state of the specification as a few machine words.

In: the constants of a model. Out: a `Layout`: which field lies in which bits. The rule that must hold: two states are
the same state exactly if their words are equal, so a field that says nothing (an offset past a log's end, a request
not yet sent) is 0.

The fields, in order; "+1" where 0 means none:

    next record id | next leader epoch | quorum's leader +1 | quorum's ISR as a bit set
    for each leader epoch that was given out:   leader +1 | ISR            what the LeaderAndIsr request said
    for each replica:  high watermark | leader epoch +1 | leader +1 | ISR | log end | (record id +1 | epoch +1) an entry

The quorum's own leader epoch is the one before the next, and the requests are one an epoch, so neither needs more.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tidegauge.snapshots.errors import SnapshotError

NEXT_RECORD: Final = 0
NEXT_EPOCH: Final = 1
QUORUM_LEADER: Final = 2
QUORUM_ISR: Final = 3
REQUESTS: Final = 4

HIGH_WATERMARK: Final = 0
EPOCH: Final = 1
LEADER: Final = 2
ISR: Final = 3
END: Final = 4
ENTRIES: Final = 5

_WORD_BITS: Final = 64
_MOST: Final = 7
"""Replicas, epochs, … up to this many: more could not be explored to an end anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """The constants of the specification, by its own names."""

    replicas: int
    log_size: int
    max_records: int
    max_leader_epoch: int

    def __post_init__(self) -> None:
        """Refuses what has no state space or one without end."""
        for name, low in (("replicas", 1), ("log_size", 1), ("max_records", 0), ("max_leader_epoch", 0)):
            value = getattr(self, name)
            if not low <= value <= _MOST:
                raise SnapshotError(f"{name.replace('_', ' ')} is {value}; it must be from {low} to {_MOST}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where each field lies: word, shift and mask of each, and where a replica's fields begin."""

    constants: Constants
    field_words: NDArray[np.int64]
    field_shifts: NDArray[np.uint64]
    field_masks: NDArray[np.uint64]
    replicas_at: int
    replica_fields: int
    words: int

    @property
    def fields(self) -> int:
        """How many fields a state has."""
        return len(self.field_words)


def layout_of(constants: Constants) -> Layout:
    """Lays the fields out; none crosses a word."""
    replica_bits = constants.replicas.bit_length()
    epoch_bits = (constants.max_leader_epoch + 1).bit_length()
    record_bits = constants.max_records.bit_length()
    offset_bits = constants.log_size.bit_length()
    request = [replica_bits, constants.replicas]
    replica = [offset_bits, epoch_bits, replica_bits, constants.replicas, offset_bits]
    replica += [record_bits, epoch_bits] * constants.log_size
    head = [record_bits, epoch_bits, replica_bits, constants.replicas, *request * (constants.max_leader_epoch + 1)]
    sizes = [*head, *replica * constants.replicas]
    words, shifts, word, used = [], [], 0, 0
    for size in sizes:
        if used + size > _WORD_BITS:
            word, used = word + 1, 0
        words.append(word)
        shifts.append(used)
        used += size
    return Layout(
        constants=constants,
        field_words=np.array(words, np.int64),
        field_shifts=np.array(shifts, np.uint64),
        field_masks=np.array([(1 << size) - 1 for size in sizes], np.uint64),
        replicas_at=len(head),
        replica_fields=len(replica),
        words=word + 1,
    )


def initial_fields(layout: Layout) -> NDArray[np.int64]:
    """Empty logs, no leader, every replica in the ISR (Init of module KafkaReplication)."""
    fields = np.zeros(layout.fields, np.int64)
    fields[QUORUM_ISR] = (1 << layout.constants.replicas) - 1
    return fields
