"""What is known of partitions beside their logs comes back as it was, and no row holds a whole history."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.conftest import Golden
from tests.sampling import one_in
from tidegauge.derivation import known_rows
from tidegauge.derivation.derive import NOT_ASKED_FOR, KnownPartition, Prepared, prepare
from tidegauge.derivation.index import index_rows
from tidegauge.derivation.index_columns import INDEX_SCHEMA, rows_of
from tidegauge.derivation.known_rows import KNOWN_SCHEMA, KNOWN_VALUES, KnownRow, KnownRows, known_of
from tidegauge.derivation.plan import segment_tasks
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.runs.run import AuditedSnapshot, ReadSnapshot, Run
from tidegauge.snapshots.adopt import open_snapshot

CAPTURES = [("tiered", None), ("soak-01", None), ("shares-unclean", "shares"), ("migrated", "migrating")]


def prepared(golden: Golden, name: str, earlier: str | None, target: Path) -> Prepared:
    found, previous = open_snapshot(golden(name), cluster="c"), None
    if earlier is not None:
        before = open_snapshot(golden(earlier), cluster="c")
        previous = ReadSnapshot(root=before.root, manifest=before.manifest)
    snapshot = AuditedSnapshot(root=found.root, manifest=found.manifest, target=target, previous=previous)
    run = Run(directory=target, snapshots=(snapshot,), store_url=None, fail_on="never", started_at_ms=0)
    summaries = pa.Table.from_batches(list(index_rows(segment_tasks(run))), schema=INDEX_SCHEMA)
    return prepare(snapshot, ds.dataset(summaries))


def through_a_file(rows: KnownRows, partitions: dict[TopicPartition, KnownPartition], place: Path) -> list[KnownRow]:
    pq.write_table(pa.Table.from_batches(list(rows.batches(partitions)), schema=KNOWN_SCHEMA), place)
    return rows_of(pq.read_table(place), KNOWN_VALUES)


@pytest.mark.parametrize(("name", "earlier"), one_in(3, CAPTURES))
@pytest.mark.parametrize("stretch", [known_rows.STRETCH, 2])
def test_it_comes_back_as_it_was(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, earlier: str | None, stretch: int
) -> None:
    monkeypatch.setattr(known_rows, "STRETCH", stretch)
    wanted = dict(prepared(golden, name, earlier, tmp_path).partitions)
    rows = KnownRows(audited=f"c/{name}")
    kept = through_a_file(rows, wanted, tmp_path / "known.parquet")
    by_partition: dict[TopicPartition, list[KnownRow]] = {}
    for row in reversed(kept):  # A shuffle keeps no order.
        assert row["audited"] == f"c/{name}"
        by_partition.setdefault((row["topic"], row["partition"]), []).append(row)
    assert {key: known_of(of_partition, rows.common) for key, of_partition in by_partition.items()} == wanted
    for row in kept:
        context = row["context"]
        many = (context.history.changes, context.coordinators.commits, context.upkeep.remote, row["replicas"])
        assert max(map(len, many)) <= stretch
        assert not context.coordinators.transactions_by_producer, "what is the whole cluster's is in no row"
    assert (len(kept) > len(wanted) * (2 if earlier else 1)) == (stretch == 2)


def test_a_partition_without_a_row_was_not_asked_for() -> None:
    assert known_of([], ()) == NOT_ASKED_FOR
