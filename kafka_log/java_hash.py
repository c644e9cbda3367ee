"""Java's hash of a text, by which Kafka finds the partition that keeps a name.

In: a group's or transactional id. Out: a number, a partition. The partition is the one that a broker and its clients
compute.

Source: String#hashCode, Utils#abs, GroupMetadataManager#partitionFor, TransactionStateManager#partitionFor.
"""

from typing import Final

_INT_MIN: Final = -(2**31)


def string_hash(text: str) -> int:
    """String#hashCode, a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def coordinator_partition(key: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets` or `__transaction_state` that holds a group's or transactional id."""
    code = string_hash(key)
    return (0 if code == _INT_MIN else abs(code)) % partition_count
