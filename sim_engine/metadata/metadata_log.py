"""The metadata log that a simulated quorum writes: real records in real batches.

In: what the controller decides, as record names and fields. Out: a `ReplicaLog` of `__cluster_metadata-0`. A batch is
what the controller wrote at once, and the first batch of each quorum leader says who leads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidegauge.kafka_log.batch import CONTROL_BIT
from tidegauge.kafka_log.control import (
    ControlRecord,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    Voter,
    encode_control_record,
)
from tidegauge.kafka_log.metadata_records import METADATA_SCHEMAS, MetadataRecord, encode_metadata_record
from tidegauge.sim_engine.log.replica_log import (
    LogConfig,
    ReplicaLog,
    append,
    new_log,
    with_epoch,
    with_high_watermark,
)
from tidegauge.sim_engine.log.stored_batch import NewRecord, stored_batch

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
METADATA_VERSION: Final = 33
"""4.4-IV2, as brokers of 4.4.0 write it."""
MIN_METADATA_VERSION: Final = 7

FEATURES: Final = (
    ("group.version", 0, 1),
    ("kraft.version", 0, 1),
    ("metadata.version", MIN_METADATA_VERSION, METADATA_VERSION),
    ("share.version", 0, 2),
    ("streams.version", 0, 1),
    ("transaction.version", 0, 2),
    ("eligible.leader.replicas.version", 0, 1),
)
"""What a node of 4.4.0 says it supports: name, lowest and highest level."""

_CONFIG: Final = LogConfig()
_TYPES: Final = {schema.name: type_id for type_id, schema in METADATA_SCHEMAS.items()}


def record(name: str, version: int, /, **fields: Any) -> MetadataRecord:
    """A record by its schema's name; what is not said has its default."""
    return MetadataRecord(type_id=_TYPES[name], name=name, version=version, fields=fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLog:
    """The log, and the epoch of the quorum's leader who writes it."""

    log: ReplicaLog
    leader_epoch: int

    @property
    def end_offset(self) -> int:
        """Where the next record will be."""
        return self.log.log_end_offset


def begun(*, leader_id: int, voters: Sequence[Voter], now_ms: int, config: LogConfig = _CONFIG) -> MetadataLog:
    """The log of a new quorum, which elected its first leader."""
    log = with_epoch(new_log(config, now_ms=now_ms), 1, 0)
    ids = tuple(voter.voter_id for voter in voters)
    change = LeaderChange(leader_id=leader_id, voters=ids, granting_voters=ids)
    first = MetadataLog(log=log, leader_epoch=1)
    return _controlled(first, [change, KRaftVersion(kraft_version=1), KRaftVoters(voters=tuple(voters))], now_ms=now_ms)


def written(metadata: MetadataLog, records: Sequence[MetadataRecord], *, now_ms: int) -> MetadataLog:
    """The log with one batch more."""
    values = [NewRecord(timestamp=now_ms, key=None, value=encode_metadata_record(r)) for r in records]
    batch = stored_batch(values, base_offset=metadata.end_offset, leader_epoch=metadata.leader_epoch)
    return _with(metadata, append(metadata.log, batch, now_ms=now_ms))


def _controlled(metadata: MetadataLog, records: Sequence[ControlRecord], *, now_ms: int) -> MetadataLog:
    pairs = [encode_control_record(value) for value in records]
    batch = stored_batch(
        [NewRecord(timestamp=now_ms, key=key, value=value) for key, value in pairs],
        base_offset=metadata.end_offset,
        leader_epoch=metadata.leader_epoch,
        attributes=CONTROL_BIT,
    )
    return _with(metadata, append(metadata.log, batch, now_ms=now_ms))


def _with(metadata: MetadataLog, log: ReplicaLog) -> MetadataLog:
    return MetadataLog(log=with_high_watermark(log, log.log_end_offset), leader_epoch=metadata.leader_epoch)
