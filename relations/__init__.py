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
from tidegauge.relations.model import (
    COMMON,
    DETAIL_LIMIT,
    SHOWN,
    Column,
    ColumnType,
    Details,
    Key,
    Relation,
    Subject,
)
from tidegauge.relations.posture import BrokerChangeRow, PostureRow, RiskRow
from tidegauge.relations.storage import KeyComparisonRow, PartitionDirectoryRow, UpkeepChangeRow, UpkeepRow


# fmt: off
class Rows(TypedDict, total=False):
    """Rows by relation: the class of each one's rows, the columns that tell them apart, and what else is said of it."""

    brokers: Annotated[list[BrokerRow], Key("broker_id"), SHOWN]
    topics: Annotated[list[TopicRow], Key("topic")]
    segments: Annotated[list[SegmentRow], Key("broker_id", "topic", "partition", "path"), Details("damages", "kind")]
    replicas: Annotated[list[ReplicaRow], Key("broker_id", "topic", "partition"), SHOWN]
    partitions: Annotated[list[PartitionRow], Key("topic", "partition"), SHOWN]
    epoch_spans: Annotated[list[EpochSpanRow], Key("broker_id", "topic", "partition", "leader_epoch"), SHOWN]
    divergences: Annotated[list[DivergenceRow], Key("topic", "partition", "leader_id", "follower_id"), Details("differing_batches"), SHOWN]
    producers: Annotated[list[ProducerRow], Key("broker_id", "topic", "partition", "producer_id", "producer_epoch"), Details("anomalies", "cause")]
    sequence_gaps: Annotated[list[SequenceGapRow], Key("broker_id", "topic", "partition", "producer_id", "producer_epoch", "offset"), SHOWN]
    transactions: Annotated[list[TransactionRow], Key("topic", "partition", "producer_id", "producer_epoch", "first_offset"), SHOWN]
    partition_changes: Annotated[list[PartitionChangeRow], Key("topic", "topic_id", "partition", "metadata_offset", "sequence_in_log"), Subject("topic", "topic_id", "partition", "metadata_offset"), SHOWN]
    committed_offsets: Annotated[list[CommittedOffsetRow], Key("group", "topic", "partition"), SHOWN]
    index_files: Annotated[list[IndexFileRow], Key("broker_id", "topic", "partition", "path"), Details("damages", "kind")]
    checkpoint_files: Annotated[list[CheckpointFileRow], Key("broker_id", "path")]
    remote_segments: Annotated[list[RemoteSegmentRow], Key("topic", "partition", "segment_id"), Details("damages", "kind"), SHOWN]
    changes: Annotated[list[ChangeRow], Key("broker_id", "topic", "partition"), Details("changed_batches")]
    cluster_answers: Annotated[list[ClusterAnswerRow], Key("kind", "name", "broker_id", "topic", "partition", "group", "transactional_id", "producer_id"), SHOWN]
    metadata_logs: Annotated[list[MetadataLogRow], Key("broker_id"), Subject("topic", "partition", "broker_id")]
    metadata_snapshots: Annotated[list[MetadataSnapshotRow], Key("broker_id", "path"), Subject("topic", "partition", "broker_id", "path"), Details("differences")]
    metadata_entries: Annotated[list[MetadataEntryRow], Key("kind", "name"), Subject("topic", "partition", "kind", "name")]
    broker_registrations: Annotated[list[BrokerRegistrationRow], Key("broker_id", "metadata_offset"), Subject("topic", "partition", "broker_id", "metadata_offset")]
    fencing_epochs: Annotated[list[FencingEpochRow], Key("epoch", "topic", "partition", "broker_id", "name")]
    isr_members: Annotated[list[IsrMemberRow], Key("topic", "partition", "leader_id", "follower_id")]
    transactional_ids: Annotated[list[TransactionalIdRow], Key("transactional_id", "topic", "partition"), Details("anomalies", "kind")]
    groups: Annotated[list[GroupRow], Key("group", "topic", "partition"), Details("anomalies", "kind")]
    share_states: Annotated[list[ShareStateRow], Key("group", "topic_id", "partition"), Details("anomalies", "kind")]
    transaction_ends: Annotated[list[TransactionEndRow], Key("topic", "partition", "transactional_id", "record_partition", "record_offset")]
    transaction_outcomes: Annotated[list[TransactionOutcomeRow], Key("producer_id", "marker_epoch", "record_partition", "record_offset")]
    postures: Annotated[list[PostureRow], Key("topic"), SHOWN]
    risks: Annotated[list[RiskRow], Key("topic", "failure", "brokers", "racks"), SHOWN]
    broker_changes: Annotated[list[BrokerChangeRow], Key("broker_id", "metadata_offset", "sequence_in_log"), Subject("broker_id", "metadata_offset"), SHOWN]
    partition_directories: Annotated[list[PartitionDirectoryRow], Key("broker_id", "log_dir", "directory"), Subject("broker_id", "topic", "partition", "log_dir"), Details("leftovers", "kind")]
    upkeep: Annotated[list[UpkeepRow], Key("broker_id", "topic", "partition")]
    upkeep_changes: Annotated[list[UpkeepChangeRow], Key("broker_id", "topic", "partition")]
    key_comparisons: Annotated[list[KeyComparisonRow], Key("topic", "partition", "leader_id", "follower_id")]
    losses: Annotated[list[LossRow], Key("topic", "partition", "start_offset"), SHOWN]
# fmt: on


def _relation(name: str, rows: object) -> Relation:
    of_rows, *said = get_args(rows)
    (key,) = (each for each in said if isinstance(each, Key))
    return Relation(
        name=name,
        row=get_args(of_rows)[0],
        key=tuple(key),
        subject=next((tuple(each) for each in said if isinstance(each, Subject)), tuple(key)),
        details=next((each for each in said if isinstance(each, Details)), None),
        shown=SHOWN in said,
    )


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
