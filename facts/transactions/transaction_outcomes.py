"""One outcome for each transaction, over all partitions and in its coordinator's word (F07).

In: the rows of `transactions` and `transaction_ends` of a whole snapshot, as Arrow tables. Out: a table of
`transaction_outcomes`. End markers are of one transaction where producer id and a raised epoch say so, or where the
coordinator's decision does; nothing else is put together.

Rows are as many as transactions, so all is done in columns; only transactions that do not agree are looked at one by
one.
"""

from collections import defaultdict
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.relations import RELATIONS

_NO_RECORD: Final = -1
_KEY: Final = ["producer_id", "marker_epoch", "record_partition", "record_offset"]
_NAMED: Final = ["producer_id", "marker_epoch"]
_PLACE: Final = [*_KEY, "topic", "partition"]
_MARKS: Final = ("committed", "aborted")


def transaction_outcomes(transactions: pa.Table, ends: pa.Table, *, cluster: str, snapshot_id: str) -> pa.Table:
    """One row a transaction that has end markers; tables may have more columns than are needed."""
    bumped = _marked(
        transactions.filter(pc.field("marker_producer_epoch") > pc.field("producer_epoch")),
        epoch="marker_producer_epoch",
        outcome="outcome",
    )
    # Where markers also end data of their own epoch, a client went back to version 1: the epoch names none of those.
    in_own = transactions.filter(pc.field("marker_producer_epoch") == pc.field("producer_epoch"))
    shared = _packed(in_own.select(["producer_id", "marker_producer_epoch"]).rename_columns(_NAMED))
    decided = _marked(_keyed(ends, bumped, shared), epoch="marker_epoch", outcome="marker_outcome")
    both = pa.concat_tables([bumped, decided])
    # A partition's marker is in both relations where the coordinator's decision is known.
    places = both.group_by(_PLACE).aggregate([(name, "max") for name in (*_MARKS, *_WORDS)])
    found = places.group_by(_KEY).aggregate(
        [
            ("topic", "count"),
            ("committed_max", "sum"),
            ("aborted_max", "sum"),
            *((f"{name}_max", "max") for name in _WORDS),
        ]
    )
    return _table(found, places, cluster=cluster, snapshot_id=snapshot_id)


_WORDS: Final = ("transactional_id", "decided_committed", "decided_aborted")


def _keyed(ends: pa.Table, bumped: pa.Table, shared: pa.Array) -> pa.Table:
    """Decisions; where the epoch alone names the transaction their place in the coordinator's log is left out."""
    alone = pc.greater_equal(pc.fill_null(ends["client_transaction_version"], 0), 2)
    keys = (
        pa.table({name: bumped[name] for name in ("producer_id", "marker_epoch")})
        .group_by(["producer_id", "marker_epoch"])
        .aggregate([])
    )
    packed = _packed(ends)
    named = pc.and_not(pc.is_in(packed, value_set=_packed(keys)), pc.is_in(packed, value_set=shared))
    alone = pc.or_(alone, named)
    for name in ("record_partition", "record_offset"):
        values = pc.if_else(alone, pa.scalar(_NO_RECORD, ends[name].type), ends[name])
        ends = ends.set_column(ends.column_names.index(name), name, values)
    return ends


def _packed(table: pa.Table) -> pa.Array:
    values = pc.binary_join_element_wise(
        table["producer_id"].cast(pa.string()), table["marker_epoch"].cast(pa.string()), ":"
    )
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _marked(table: pa.Table, *, epoch: str, outcome: str) -> pa.Table:
    """One row a marker: whose, where, and what it and its coordinator say."""
    names = set(table.column_names)
    table = table.filter(pc.is_valid(table[outcome]))
    size = len(table)
    decided = table["decided_outcome"] if "decided_outcome" in names else pa.nulls(size, pa.string())
    no_record = {n: pa.array([_NO_RECORD] * size, pa.int64()) for n in ("record_partition", "record_offset")}
    records = {n: table[n].cast(pa.int64()) if n in names else no_record[n] for n in no_record}
    return pa.table(
        {
            "producer_id": table["producer_id"],
            "marker_epoch": table[epoch].cast(pa.int32()),
            **records,
            "topic": table["topic"],
            "partition": table["partition"],
            "committed": pc.equal(table[outcome], "committed").cast(pa.int32()),
            "aborted": pc.equal(table[outcome], "aborted").cast(pa.int32()),
            "transactional_id": table["transactional_id"],
            "decided_committed": pc.equal(decided, "committed").cast(pa.int32()),
            "decided_aborted": pc.equal(decided, "aborted").cast(pa.int32()),
        }
    )


def _table(found: pa.Table, places: pa.Table, *, cluster: str, snapshot_id: str) -> pa.Table:
    committed, aborted = found["committed_max_sum"], found["aborted_max_sum"]
    said_committed = pc.equal(pc.fill_null(found["decided_committed_max_max"], 0), 1)
    said_aborted = pc.equal(pc.fill_null(found["decided_aborted_max_max"], 0), 1)
    decided = pc.if_else(said_committed, "committed", pc.if_else(said_aborted, "aborted", pa.scalar(None, pa.string())))
    apart = pc.or_(
        pc.and_(pc.greater(committed, 0), pc.greater(aborted, 0)),
        pc.or_(pc.and_(said_committed, pc.greater(aborted, 0)), pc.and_(said_aborted, pc.greater(committed, 0))),
    )
    names = _names(places, found.filter(apart).select(_KEY))
    keys = list(zip(*(found[name].to_pylist() for name in _KEY), strict=True)) if names else []
    lists = {
        f"{mark}_on": pa.array(
            [names[mark].get(k) for k in keys] if names else [None] * len(found), pa.list_(pa.string())
        )
        for mark in _MARKS
    }
    no_record = pc.equal(found["record_offset"], _NO_RECORD)
    columns = {
        "cluster": pa.array([cluster] * len(found), pa.string()),
        "snapshot_id": pa.array([snapshot_id] * len(found), pa.string()),
        "producer_id": found["producer_id"],
        "marker_epoch": found["marker_epoch"],
        "transactional_id": found["transactional_id_max_max"],
        "record_partition": pc.if_else(no_record, None, found["record_partition"]),
        "record_offset": pc.if_else(no_record, None, found["record_offset"]),
        "decided_outcome": decided,
        "partitions": found["topic_count"],
        "committed_partitions": committed,
        "aborted_partitions": aborted,
        **lists,
    }
    schema = RELATIONS["transaction_outcomes"].arrow_schema
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


def _names(places: pa.Table, apart: pa.Table) -> dict[str, dict[tuple[int, ...], list[str]]]:
    """Where the markers of the transactions that do not agree stand, by what they say."""
    if not len(apart):
        return {}
    found: dict[str, dict[tuple[int, ...], list[str]]] = {mark: defaultdict(list) for mark in _MARKS}
    for row in places.join(apart, keys=_KEY, join_type="inner").to_pylist():
        for mark in _MARKS:
            if row[f"{mark}_max"]:
                found[mark][tuple(row[name] for name in _KEY)].append(f"{row['topic']}-{row['partition']}")
    return {mark: {key: sorted(values) for key, values in of_mark.items()} for mark, of_mark in found.items()}
