"""One metadata record about a partition, and what it changed: a row of `partition_changes`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """One metadata record about the partition, with what it changed: a row of `partition_changes`."""

    metadata_offset: int
    sequence_in_log: int
    from_snapshot: bool
    at_ms: int | None
    leader_id: int | None
    previous_leader_id: int | None
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    previous_isr: tuple[int, ...]
    elr: tuple[int, ...]
    previous_elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    recovering: bool
    election: str
    created: bool = False
    """The first record of a partition, in the log itself."""
    restated: bool = False
    """A PartitionRecord of a partition that is there already: it says all anew, epochs included."""
    previous_leader_epoch: int | None = None
    previous_partition_epoch: int | None = None
    previous_recovering: bool | None = None
    directories: tuple[str, ...] = ()
    min_insync_replicas: int | None = None
    """As it was in force then; None where the log does not tell."""
    after_damage: bool = False
    """Records before this one could not be read."""
    migrated: bool = False
    """The metadata came from ZooKeeper: its first epochs are any number."""
    snapshot_end_offset: int | None = None
    """End of a metadata snapshot that holds this state; of the first that contradicts it, if one does."""
    snapshot_partition_epoch: int | None = None
    snapshot_leader_epoch: int | None = None
    snapshot_files: tuple[tuple[int, str], ...] = ()
    """Node and path of each metadata snapshot that says so."""
    out_of_place_offset: int | None = None
    """The record from which on members were in the ISR that may not be."""
    out_of_place_ms: int | None = None
    """How long they were, up to the log's end."""
    removed_by_controller: tuple[int, ...] = ()
    """Members that left the ISR in the batch that also tells of their brokers: the controller took them out, and the
    leader hears of it from the metadata log alone. Others left at the leader's own request."""
    isr_inactive: tuple[int, ...] = ()
    isr_without_directory: tuple[int, ...] = ()
    isr_joined_inactive: tuple[int, ...] = ()
    """Of `isr_inactive` those whom this change took into the ISR, or elected, after they had gone."""
