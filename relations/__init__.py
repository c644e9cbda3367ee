"""The fact relations: what is so, one row per grain, judged by nobody yet.

In: nothing; this is the contract between the folds that make facts (`facts`), the store that keeps them
(`sql/`), and the invariants that judge them (`expectations.invariants`). Out: for each relation its columns, their types
and their meaning. The rule that must hold here: a null means "not known" or "not there", never 0 and never -1;
`_offset` is inclusive, `_end_offset` exclusive; a unit comes last.

Every relation begins with `cluster` and `snapshot_id`; the store adds `run_id`. A column of type `json` is a JSON text in
Parquet and `jsonb` in Postgres: a list of small objects that an explanation quotes (damaged places, missing entries), at
most `DETAIL_LIMIT` of them; the counts beside it are exact.
"""

from collections.abc import Mapping
from typing import Final

from tidegauge.relations.answers import CLUSTER_ANSWERS
from tidegauge.relations.cluster import (
    BROKERS,
    CHANGES,
    CHECKPOINT_FILES,
    COMMITTED_OFFSETS,
    LOSSES,
    PARTITION_CHANGES,
    PARTITIONS,
    REMOTE_SEGMENTS,
    TOPICS,
)
from tidegauge.relations.coordinators import (
    GROUPS,
    SHARE_STATES,
    TRANSACTION_ENDS,
    TRANSACTION_OUTCOMES,
    TRANSACTIONAL_IDS,
)
from tidegauge.relations.logs import (
    DIVERGENCES,
    EPOCH_SPANS,
    INDEX_FILES,
    ISR_MEMBERS,
    PRODUCERS,
    REPLICAS,
    SEGMENTS,
    SEQUENCE_GAPS,
    TRANSACTIONS,
)
from tidegauge.relations.metadata import (
    BROKER_REGISTRATIONS,
    FENCING_EPOCHS,
    METADATA_ENTRIES,
    METADATA_LOGS,
    METADATA_SNAPSHOTS,
)
from tidegauge.relations.model import COMMON, DETAIL_LIMIT, Column, ColumnType, Relation
from tidegauge.relations.posture import BROKER_CHANGES, POSTURES, RISKS
from tidegauge.relations.storage import KEY_COMPARISONS, PARTITION_DIRECTORIES, UPKEEP, UPKEEP_CHANGES

RELATIONS: Final[Mapping[str, Relation]] = {
    r.name: r
    for r in (
        BROKERS,
        TOPICS,
        SEGMENTS,
        REPLICAS,
        PARTITIONS,
        EPOCH_SPANS,
        DIVERGENCES,
        PRODUCERS,
        SEQUENCE_GAPS,
        TRANSACTIONS,
        PARTITION_CHANGES,
        COMMITTED_OFFSETS,
        INDEX_FILES,
        CHECKPOINT_FILES,
        REMOTE_SEGMENTS,
        CHANGES,
        CLUSTER_ANSWERS,
        METADATA_LOGS,
        METADATA_SNAPSHOTS,
        METADATA_ENTRIES,
        BROKER_REGISTRATIONS,
        FENCING_EPOCHS,
        ISR_MEMBERS,
        TRANSACTIONAL_IDS,
        GROUPS,
        SHARE_STATES,
        TRANSACTION_ENDS,
        TRANSACTION_OUTCOMES,
        POSTURES,
        RISKS,
        BROKER_CHANGES,
        PARTITION_DIRECTORIES,
        UPKEEP,
        UPKEEP_CHANGES,
        KEY_COMPARISONS,
    )
}

__all__ = ["COMMON", "DETAIL_LIMIT", "LOSSES", "RELATIONS", "Column", "ColumnType", "Relation"]
