"""Room on a broker's disk, and what a broker does when there is none.

In: a batch that is about to be written. Out: whether it fits; if not, a failed log dir. A batch is written whole or the
broker works on no more: a broker whose only log dir has failed halts at once, and what there was room for of the batch
is left at the end of its file.

Each broker here has one log dir. With more of them Kafka goes on with the others.

Source: Kafka LogDirFailureChannel, LogManager#handleLogDirFailure, ReplicaManager#handleLogDirFailure.
"""

from dataclasses import replace

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.actions import LogDirFailed
from tidegauge.sim_engine.log.stored_batch import StoredBatch
from tidegauge.sim_engine.turn import Turn


def took_room(turn: Turn, broker_id: int, partition: TopicPartition, batch: StoredBatch) -> bool:
    """Takes what a batch needs; or the log dir fails before anything else happens."""
    disk = turn.broker(broker_id).disk
    if disk.room_bytes is None:
        return True
    if batch.size_bytes <= disk.room_bytes:
        turn.put_disk(broker_id, replace(disk, room_bytes=disk.room_bytes - batch.size_bytes))
        return True
    running = turn.running(broker_id)
    assert running is not None
    turn.at(turn.now_ms, LogDirFailed(broker_id, running.incarnation, partition, batch))
    return False
