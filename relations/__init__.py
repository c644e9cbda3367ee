"""The fact relations: what is so, one row per grain, judged by nobody yet.

In: nothing; this is the contract between the folds that make facts (`facts`), the store that keeps them
(`sql/`), and the invariants that judge them (`expectations.invariants`). Out: `Rows`, the class of each relation's rows
and their key; and `RELATIONS`, made from it: columns, their types and their meaning. The rule that must hold here: a null means "not known" or "not there", never 0 and never -1;
`_offset` is inclusive, `_end_offset` exclusive; a unit comes last.

Every relation begins with `cluster` and `snapshot_id`; the store adds `run_id`. A column of type `json` is a JSON text in
Parquet and `jsonb` in Postgres: a list of small objects that an explanation quotes (damaged places, missing entries), at
most `DETAIL_LIMIT` of them; the counts beside it are exact.
"""

from collections.abc import Mapping
from typing import Annotated, Final, TypedDict, get_args, get_type_hints

from tidegauge.relations.answers import ClusterAnswerRow
from tidegauge.relations.cluster import (
    BrokerRow,
    ChangeRow,
    CheckpointFileRow,
    CommittedOffsetRow,
    LossRow,
    PartitionChangeRow,
    PartitionRow,
    RemoteSegmentRow,
    TopicRow,
)
from tidegauge.relations.coordinators import (
    GroupRow,
    ShareStateRow,
    TransactionalIdRow,
    TransactionEndRow,
    TransactionOutcomeRow,
)
from tidegauge.relations.logs import (
    DivergenceRow,
    EpochSpanRow,
    IndexFileRow,
    IsrMemberRow,
    ProducerRow,
    ReplicaRow,
    SegmentRow,
    SequenceGapRow,
    TransactionRow,
)
from tidegauge.relations.metadata import (
    BrokerRegistrationRow,
    FencingEpochRow,
    MetadataEntryRow,
    MetadataLogRow,
    MetadataSnapshotRow,
)
from tidegauge.relations.model import COMMON, DETAIL_LIMIT, Column, ColumnType, Relation
from tidegauge.relations.posture import BrokerChangeRow, PostureRow, RiskRow
from tidegauge.relations.storage import KeyComparisonRow, PartitionDirectoryRow, UpkeepChangeRow, UpkeepRow


# fmt: off
class Rows(TypedDict, total=False):
    """Rows by relation: the class of each one's rows, and the columns that tell them apart."""

    brokers: Annotated[list[BrokerRow], "broker_id"]
    topics: Annotated[list[TopicRow], "topic"]
    segments: Annotated[list[SegmentRow], "broker_id", "topic", "partition", "path"]
    replicas: Annotated[list[ReplicaRow], "broker_id", "topic", "partition"]
    partitions: Annotated[list[PartitionRow], "topic", "partition"]
    epoch_spans: Annotated[list[EpochSpanRow], "broker_id", "topic", "partition", "leader_epoch"]
    divergences: Annotated[list[DivergenceRow], "topic", "partition", "leader_id", "follower_id"]
    producers: Annotated[list[ProducerRow], "broker_id", "topic", "partition", "producer_id", "producer_epoch"]
    sequence_gaps: Annotated[list[SequenceGapRow], "broker_id", "topic", "partition", "producer_id", "producer_epoch", "offset"]
    transactions: Annotated[list[TransactionRow], "topic", "partition", "producer_id", "producer_epoch", "first_offset"]
    partition_changes: Annotated[list[PartitionChangeRow], "topic", "topic_id", "partition", "metadata_offset", "sequence_in_log"]
    committed_offsets: Annotated[list[CommittedOffsetRow], "group", "topic", "partition"]
    index_files: Annotated[list[IndexFileRow], "broker_id", "topic", "partition", "path"]
    checkpoint_files: Annotated[list[CheckpointFileRow], "broker_id", "path"]
    remote_segments: Annotated[list[RemoteSegmentRow], "topic", "partition", "segment_id"]
    changes: Annotated[list[ChangeRow], "broker_id", "topic", "partition"]
    cluster_answers: Annotated[list[ClusterAnswerRow], "kind", "name", "broker_id", "topic", "partition", "group", "transactional_id", "producer_id"]
    metadata_logs: Annotated[list[MetadataLogRow], "broker_id"]
    metadata_snapshots: Annotated[list[MetadataSnapshotRow], "broker_id", "path"]
    metadata_entries: Annotated[list[MetadataEntryRow], "kind", "name"]
    broker_registrations: Annotated[list[BrokerRegistrationRow], "broker_id", "metadata_offset"]
    fencing_epochs: Annotated[list[FencingEpochRow], "epoch", "topic", "partition", "broker_id", "name"]
    isr_members: Annotated[list[IsrMemberRow], "topic", "partition", "leader_id", "follower_id"]
    transactional_ids: Annotated[list[TransactionalIdRow], "transactional_id", "topic", "partition"]
    groups: Annotated[list[GroupRow], "group", "topic", "partition"]
    share_states: Annotated[list[ShareStateRow], "group", "topic_id", "partition"]
    transaction_ends: Annotated[list[TransactionEndRow], "topic", "partition", "transactional_id", "record_partition", "record_offset"]
    transaction_outcomes: Annotated[list[TransactionOutcomeRow], "producer_id", "marker_epoch", "record_partition", "record_offset"]
    postures: Annotated[list[PostureRow], "topic"]
    risks: Annotated[list[RiskRow], "topic", "failure", "brokers", "racks"]
    broker_changes: Annotated[list[BrokerChangeRow], "broker_id", "metadata_offset", "sequence_in_log"]
    partition_directories: Annotated[list[PartitionDirectoryRow], "broker_id", "log_dir", "directory"]
    upkeep: Annotated[list[UpkeepRow], "broker_id", "topic", "partition"]
    upkeep_changes: Annotated[list[UpkeepChangeRow], "broker_id", "topic", "partition"]
    key_comparisons: Annotated[list[KeyComparisonRow], "topic", "partition", "leader_id", "follower_id"]
    losses: Annotated[list[LossRow], "topic", "partition", "start_offset"]
# fmt: on

_SHOWN: Final = frozenset({
    "broker_changes", "brokers", "cluster_answers", "committed_offsets", "divergences", "epoch_spans", "losses",
    "partition_changes", "partitions", "postures", "remote_segments", "replicas", "risks", "sequence_gaps",
    "transactions",
})  # fmt: skip
"""Relations of which the store has every row (`Relation.shown`)."""


def _relation(name: str, rows: object) -> Relation:
    of_rows, *key = get_args(rows)
    return Relation(name=name, row=get_args(of_rows)[0], key=tuple(key), shown=name in _SHOWN)


_ALL: Final = {name: _relation(name, rows) for name, rows in get_type_hints(Rows, include_extras=True).items()}

LOSSES: Final = _ALL["losses"]
"""What the report's `losses` are written from; the store keeps them in table `loss`."""
RELATIONS: Final[Mapping[str, Relation]] = {name: r for name, r in _ALL.items() if r is not LOSSES}

__all__ = [
    "COMMON",
    "DETAIL_LIMIT",
    "LOSSES",
    "RELATIONS",
    "BrokerChangeRow",
    "BrokerRegistrationRow",
    "BrokerRow",
    "ChangeRow",
    "CheckpointFileRow",
    "ClusterAnswerRow",
    "Column",
    "ColumnType",
    "CommittedOffsetRow",
    "DivergenceRow",
    "EpochSpanRow",
    "FencingEpochRow",
    "GroupRow",
    "IndexFileRow",
    "IsrMemberRow",
    "KeyComparisonRow",
    "LossRow",
    "MetadataEntryRow",
    "MetadataLogRow",
    "MetadataSnapshotRow",
    "PartitionChangeRow",
    "PartitionDirectoryRow",
    "PartitionRow",
    "PostureRow",
    "ProducerRow",
    "Relation",
    "RemoteSegmentRow",
    "ReplicaRow",
    "RiskRow",
    "Rows",
    "SegmentRow",
    "SequenceGapRow",
    "ShareStateRow",
    "TopicRow",
    "TransactionEndRow",
    "TransactionOutcomeRow",
    "TransactionRow",
    "TransactionalIdRow",
    "UpkeepChangeRow",
    "UpkeepRow",
]
