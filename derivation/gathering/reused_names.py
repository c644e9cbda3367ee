"""Whether a checkpoint's entry is about the log that lies there now, or about an earlier one of the same name.

In: the metadata history, a replica's place, the checkpoint file and the replica's partition.metadata. Out: a yes or no.
Checkpoint files know topics by name only and are written every few seconds, so for that long a topic that was deleted
and created again under its name, or a replica that was moved away and back, has its predecessor's offsets there; they
say nothing of the new log.
"""

from typing import Final

from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.snapshots.manifest import FileEntry

CHECKPOINT_EVERY_MS: Final = 60_000
"""The slowest of the checkpoints, log-start-offset-checkpoint, is written this often (others: 5 s, or at a flush)."""


def is_of_this_log(
    history: MetadataHistory,
    topic: str,
    partition: int,
    broker_id: int,
    *,
    checkpoint: FileEntry | None,
    metadata: FileEntry | None,
    clean_shutdown: bool = False,
) -> bool:
    """Whether an entry for this partition in this checkpoint may be believed. `metadata`: its partition.metadata.

    A broker that stops in good order (`clean_shutdown`) writes every checkpoint once more.
    """
    began_at_ms = _began_again_at_ms(history, topic, partition, broker_id)
    if began_at_ms is None or clean_shutdown:
        return True
    written = checkpoint.modified_at_ns if checkpoint is not None else None
    created = metadata.modified_at_ns if metadata is not None else None
    if written is not None and created is not None:
        # Both by the broker's own clock: partition.metadata is written when the log is created, and never again.
        return written >= created
    # A plain copy tells no times: an entry counts once every checkpoint must have been written anew.
    now = history.last_record_at_ms
    return broker_id in history.alive_brokers and now is not None and now - began_at_ms > CHECKPOINT_EVERY_MS


def _began_again_at_ms(history: MetadataHistory, topic: str, partition: int, broker_id: int) -> int | None:
    """When the last log began that had a predecessor of its name on this broker; None if there is no sign of one.

    That log's topic may be deleted by now, too: the metadata log is read again after the logs.
    """
    began: list[int] = []
    had_one = False
    for one in history.lives(topic):
        state = one.partitions.get(partition)
        held = False
        for change in state.changes if state is not None else ():
            holds = broker_id in change.replicas
            if holds and not held and had_one:
                began.append(change.at_ms or 0)
            held = holds
            had_one = had_one or holds
    return max(began, default=None)
