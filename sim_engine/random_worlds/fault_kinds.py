"""The kinds of faults that a random world may suffer, by name.

In: names from a command line. Out: kinds. The rule that must hold: a name is never given twice, and never changes.

What a sound cluster must bear is no fault here, and happens in every world: brokers that stop or die one at a time
while all replicas are in sync, slow and lossy links, changes of leaders, calls of operators.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class WorldFault(StrEnum):
    """One kind of fault."""

    KILLS = "kills"
    POWER_CUT = "power-cut"
    NETWORK_CUT = "network-cut"
    ONE_WAY_CUT = "one-way-cut"
    UNCLEAN_ELECTION = "unclean-election"
    WIPED_DISK = "wiped-disk"
    STALE_DISK = "stale-disk"
    TORN_WRITE = "torn-write"
    LOST_FLUSH = "lost-flush"
    RECORDS_BIT_FLIP = "records-bit-flip"
    HEADER_BIT_FLIP = "header-bit-flip"
    LOST_SEGMENT = "lost-segment"
    SAME_EPOCH_REWRITE = "same-epoch-rewrite"
    LOST_MARKER = "lost-marker"
    DOUBLED_MARKER = "doubled-marker"
    HANGING_TRANSACTION = "hanging-transaction"
    ZOMBIE_PRODUCER = "zombie-producer"
    SEQUENCE_GAP = "sequence-gap"
    SEQUENCE_DUPLICATE = "sequence-duplicate"
    COMPACTION_RACE = "compaction-race"
    OLD_PROTOCOL = "old-protocol"
    STALE_CHECKPOINT = "stale-checkpoint"
    FULL_DISK = "full-disk"
    REMOTE_TIER_GAP = "remote-tier-gap"
    LOST_REMOTE_SEGMENT = "lost-remote-segment"
    WRONG_REMOTE_DELETION = "wrong-remote-deletion"
    OFFSET_INDEX = "offset-index"
    TIME_INDEX = "time-index"
    TRANSACTION_INDEX = "transaction-index"
    PRODUCER_SNAPSHOT = "producer-snapshot"
    EPOCH_CHECKPOINT = "epoch-checkpoint"
    OFFSET_CHECKPOINT = "offset-checkpoint"


ABOUT: Final[Mapping[WorldFault, str]] = MappingProxyType(
    {
        WorldFault.KILLS: "processes of several brokers die at once, or one after the other too quickly",
        WorldFault.POWER_CUT: "machines lose power, and what was not flushed",
        WorldFault.NETWORK_CUT: "brokers do not hear one another, or the controller, for a while",
        WorldFault.ONE_WAY_CUT: "messages get through in one direction only",
        WorldFault.UNCLEAN_ELECTION: "a replica that lacks committed records is made leader",
        WorldFault.WIPED_DISK: "a broker comes back with an empty disk",
        WorldFault.STALE_DISK: "a broker comes back with the disk of an earlier moment",
        WorldFault.TORN_WRITE: "of the last batch of a dead broker's log only the first bytes are there",
        WorldFault.LOST_FLUSH: "the last batches of a dead broker's log never reached its disk",
        WorldFault.RECORDS_BIT_FLIP: "a bit of a batch's records turns over",
        WorldFault.HEADER_BIT_FLIP: "a bit of a batch's header turns over",
        WorldFault.LOST_SEGMENT: "a segment's files are gone from a dead broker's disk",
        WorldFault.SAME_EPOCH_REWRITE: "a batch on one replica is another one, under a right checksum",
        WorldFault.LOST_MARKER: "a coordinator takes an end marker for written that is not",
        WorldFault.DOUBLED_MARKER: "a transaction's end marker is written twice",
        WorldFault.HANGING_TRANSACTION: "a late batch begins a transaction that nobody will end",
        WorldFault.ZOMBIE_PRODUCER: "a fenced instance of a transactional application writes on",
        WorldFault.SEQUENCE_GAP: "a leader takes a batch before the ones that its sequence follows",
        WorldFault.SEQUENCE_DUPLICATE: "a leader takes a batch a second time",
        WorldFault.COMPACTION_RACE: "a follower is away for longer than tombstones are kept",
        WorldFault.OLD_PROTOCOL: "brokers die and lead as before KIP-320: truncation by high watermark or old epochs",
        WorldFault.STALE_CHECKPOINT: "a dead broker's checkpoint file is one of an earlier moment",
        WorldFault.FULL_DISK: "a disk fills up in the middle of a batch, and its broker halts",
        WorldFault.REMOTE_TIER_GAP: "local segments are deleted before they are copied to the remote tier",
        WorldFault.LOST_REMOTE_SEGMENT: "the remote store loses an object and tells nobody",
        WorldFault.WRONG_REMOTE_DELETION: "a segment in the middle of the remote tier is deleted",
        WorldFault.OFFSET_INDEX: "an offset index leads to the wrong place, or has a wrong size",
        WorldFault.TIME_INDEX: "a time index names a time that no batch has",
        WorldFault.TRANSACTION_INDEX: "a transaction index lacks an aborted transaction, or is cut short",
        WorldFault.PRODUCER_SNAPSHOT: "a bit of a producer snapshot turns over",
        WorldFault.EPOCH_CHECKPOINT: "a leader-epoch-checkpoint is damaged, or says something else than the log",
        WorldFault.OFFSET_CHECKPOINT: "a checkpoint file names an offset beyond the end of its log",
    }
)


def fault_kinds_named(text: str) -> tuple[WorldFault, ...]:
    """`all`, `none`, or names with commas between them. Raises `ValueError` for a name that no kind has."""
    if text == "none":
        return ()
    if text == "all":
        return tuple(WorldFault)
    return tuple(WorldFault(name.strip()) for name in text.split(","))
