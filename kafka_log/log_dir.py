"""Names in a log dir: partition directories, segment files, checkpoint files.

In: a file or directory name. Out: what it names, or None. Only names that a broker itself writes are taken for what
they say (LogFileUtils, UnifiedLog#parseTopicPartitionName), and `.headers`, what a capture keeps of a `.log`
(`kafka_log.headers_file`); a number that Kafka's own type has no room for is in none of them.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

_MAX_INT32: Final = 2**31 - 1
_MAX_INT64: Final = 2**63 - 1

CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
LATER_EPOCH_CHECKPOINT: Final = f"{LEADER_EPOCH_CHECKPOINT}.after"
"""A capture's second copy of leader-epoch-checkpoint, read behind the logs, where it differs from the first."""
REPLICATION_OFFSET_CHECKPOINT: Final = "replication-offset-checkpoint"
RECOVERY_POINT_OFFSET_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
QUORUM_STATE: Final = "quorum-state"

PartitionState = Literal["live", "future", "deleted", "stray"]
SegmentFileKind = Literal["log", "headers", "index", "timeindex", "txnindex", "snapshot"]
_STATES: Final[dict[str | None, PartitionState]] = {
    None: "live",
    "future": "future",
    "delete": "deleted",
    "stray": "stray",
}
_PARTITION: Final = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>[0-9]{1,10})(?:\.[0-9a-f]{32}-(?P<state>future|delete|stray))?"
)
_SEGMENT: Final = re.compile(
    r"([0-9]{20})\.(log|headers|index|timeindex|txnindex|snapshot)(?:\.(deleted|cleaned|swap|tmp))?"
)
_LOG_IN_NAME: Final = re.compile(r"(?<![^/])([0-9]{20})\.log((?:\.(?:deleted|cleaned|swap|tmp))?)\Z")
_HEADERS_IN_NAME: Final = re.compile(r"(?<![^/])([0-9]{20})\.headers((?:\.(?:deleted|cleaned|swap|tmp))?)\Z")
_METADATA_CHECKPOINT: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDir:
    """A partition directory; `future`: a move between log dirs, `deleted`, `stray`: renamed, waiting to be removed."""

    topic: str
    partition: int
    state: PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """A file of a segment; `suffix` is "" for a live one, else deleted, cleaned, swap or tmp."""

    base_offset: int
    kind: SegmentFileKind
    suffix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCheckpoint:
    """A snapshot of the metadata log: everything below `end_offset`, the last of it in `leader_epoch`."""

    end_offset: int
    leader_epoch: int


def parse_partition_dir(name: str) -> PartitionDir | None:
    """`orders-0`, `orders-0.<32 hex>-delete`, …; None for anything else."""
    match = _PARTITION.fullmatch(name)
    if match is None or int(match["partition"]) > _MAX_INT32:
        return None
    return PartitionDir(topic=match["topic"], partition=int(match["partition"]), state=_STATES[match["state"]])


def parse_segment_file(name: str) -> SegmentFile | None:
    """`00000000000000000288.log`, …; None for anything else."""
    match = _SEGMENT.fullmatch(name)
    if match is None or int(match[1]) > _MAX_INT64:
        return None
    kind: SegmentFileKind = match[2]  # type: ignore[assignment]
    return SegmentFile(base_offset=int(match[1]), kind=kind, suffix=match[3] or "")


def is_live_log(name: str) -> bool:
    """Whether a name is that of a segment in use."""
    segment = parse_segment_file(name)
    return segment is not None and segment.kind == "log" and not segment.suffix


def is_of_a_log(name: str) -> bool:
    """Whether a name is that of a file of a segment in use, or of a snapshot of the metadata log."""
    segment = parse_segment_file(name)
    return (segment is not None and not segment.suffix) or parse_metadata_checkpoint(name) is not None


def headers_name(log: str) -> str:
    """A segment's headers file by the name (or path) of its log: `….log.deleted` is kept as `….headers.deleted`."""
    return _LOG_IN_NAME.sub(r"\1.headers\2", log)


def log_name(path: str) -> str:
    """The other way; the name of anything but a headers file stays as it is."""
    return _HEADERS_IN_NAME.sub(r"\1.log\2", path)


def is_headers_file(path: str) -> bool:
    """Whether a name (or path) is that of a headers file."""
    return _HEADERS_IN_NAME.search(path) is not None


def parse_metadata_checkpoint(name: str) -> MetadataCheckpoint | None:
    """`00000000000000000350-0000000001.checkpoint`; None for anything else."""
    match = _METADATA_CHECKPOINT.fullmatch(name)
    if match is None or int(match[1]) > _MAX_INT64 or int(match[2]) > _MAX_INT32:
        return None
    return MetadataCheckpoint(end_offset=int(match[1]), leader_epoch=int(match[2]))
