"""What can only be told when every partition's facts are there: transactions over all partitions.

In: a way to read the tables of relations that the tasks wrote, and the rows of transactional ids. Out: more tables. The
rule that must hold: bulk relations are looked at in columns, never row by row.
"""

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.derivation.fact_files import relation_table
from tidegauge.facts.transactions.transaction_outcomes import transaction_outcomes
from tidegauge.relations import TransactionalIdRow

ReadRelation = Callable[[str], pa.Table]


def whole_cluster_tables(
    read: ReadRelation, transactional_ids: Sequence[TransactionalIdRow], *, cluster: str, snapshot_id: str
) -> Mapping[str, pa.Table]:
    """Relation -> its table."""
    outcomes = transaction_outcomes(
        read("transactions"), read("transaction_ends"), cluster=cluster, snapshot_id=snapshot_id
    )
    largest = _largest_data_epochs(read("producers"), transactional_ids)
    ids: list[TransactionalIdRow] = [
        {
            **row,
            "largest_data_epoch": largest.get(producer_id) if (producer_id := row["producer_id"]) is not None else None,
        }
        for row in transactional_ids
    ]
    return {
        "transaction_outcomes": outcomes,
        "transactional_ids": relation_table("transactional_ids", ids, cluster=cluster, snapshot_id=snapshot_id),
    }


def _largest_data_epochs(producers: pa.Table, transactional_ids: Sequence[TransactionalIdRow]) -> Mapping[int, int]:
    """Producer id of a transactional id -> the largest epoch under which it wrote data."""
    wanted = pa.array([row["producer_id"] for row in transactional_ids if row["producer_id"] is not None], pa.int64())
    data = producers.filter(
        pc.and_(pc.is_valid(producers["first_sequence"]), pc.is_in(producers["producer_id"], value_set=wanted))
    )
    found = data.group_by("producer_id").aggregate([("producer_epoch", "max")])
    return dict(zip(found["producer_id"].to_pylist(), found["producer_epoch_max"].to_pylist(), strict=True))
