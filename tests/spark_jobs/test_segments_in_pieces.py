"""Segments whose summaries need several rows, on Spark: the facts of one process, whether they are read or at hand."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tidegauge.derivation.fact_files import read_relation
from tidegauge.derivation.segment_pieces import ROOM
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.coordinator_schemas import COORDINATOR_SCHEMAS
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.kafka_log.records import Record, RecordBatch
from tidegauge.kafka_log.schema_writer import write_message
from tidegauge.relations import RELATIONS

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

MANY = 2 * ROOM + 7
AT_MS = 1_795_000_000_000


def batch(offset: int, record: Mapping[str, bytes | None], producer_id: int) -> bytes:
    placed = Record(offset=offset, timestamp=AT_MS, key=record["key"], value=record["value"])
    numbered = 0 if producer_id >= 0 else -1
    return write_batch(
        RecordBatch(
            base_offset=offset, last_offset=offset, partition_leader_epoch=0, crc=0, attributes=0,
            base_timestamp=AT_MS, max_timestamp=AT_MS, producer_id=producer_id, producer_epoch=numbered,
            base_sequence=numbered, records=(placed,),
        ),
        codec=CompressionType.NONE,
    )  # fmt: skip


def of_many_producers() -> Iterator[bytes]:
    for number in range(MANY):
        yield batch(number, {"key": None, "value": b"x"}, number)


def of_many_groups() -> Iterator[bytes]:
    told = {"offset": 1, "leader_epoch": 0, "metadata": "", "commit_timestamp": AT_MS}
    value = b"\0\3" + write_message(COORDINATOR_SCHEMAS["OffsetCommitValue"], told, 3)
    for number in range(MANY):
        committed = {"group": f"group-{number}", "topic": "orders", "partition": 0}
        key = b"\0\1" + write_message(COORDINATOR_SCHEMAS["OffsetCommitKey"], committed, 0)
        yield batch(number, {"key": key, "value": value}, -1)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated cluster's disks, with a partition of many producers and one of many groups' offsets."""
    world = tmp_path_factory.mktemp("world")
    made = json.loads(tidegauge("simulate", "--seed", "13", "--out", str(world), "--json"))
    directory = Path(made["moments"][0]["snapshot"])
    for told in (*directory.glob("MANIFEST.*"), *directory.glob("TRUTH.json")):
        told.unlink()
    log_dir = next(directory.glob("broker-1/**/replication-offset-checkpoint")).parent
    for name, batches in (("many-0", of_many_producers()), (f"{CONSUMER_OFFSETS}-0", of_many_groups())):
        place = log_dir / name
        place.mkdir(exist_ok=True)
        for old in place.iterdir():
            old.unlink()
        *sealed, last = batches
        (place / f"{0:020}.log").write_bytes(b"".join(sealed))
        (place / f"{len(sealed):020}.log").write_bytes(last)
    tidegauge("snapshot", "adopt", str(directory), "--cluster", "many", "--consistency", "atomic")
    return directory


def tidegauge(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tidegauge", *arguments], capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "TIDEGAUGE_SPARK_MASTER": ""},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def facts(out: Path) -> dict[str, list[dict[str, Any]]]:
    """Each relation's rows, in an order of their own."""
    return {
        name: sorted(read_relation(out / "facts", name).to_pylist(), key=lambda row: json.dumps(row, default=str))
        for name in RELATIONS
    }


def test_they_are_the_same_on_spark_and_from_what_was_kept(snapshot: Path, tmp_path: Path) -> None:
    kept = ("--summaries", str(tmp_path / "kept"), "--store", "none")
    tidegauge("audit", str(snapshot), "--summaries", "none", "--store", "none", "--out", str(tmp_path / "here"))
    expected = facts(tmp_path / "here")
    assert sum(row["topic"] == "many" for row in expected["producers"]) == MANY
    assert len({row["group"] for row in expected["committed_offsets"]} & {f"group-{at}" for at in range(MANY)}) == MANY
    for how in ("read", "reused"):
        tidegauge("audit", str(snapshot), *kept, "--master", "local[2]", "--out", str(tmp_path / how))
        assert facts(tmp_path / how) == expected, how
    coverage = json.loads((tmp_path / "reused" / "report.json").read_text(encoding="utf-8"))["coverage"]
    assert coverage["segments_reused"] > 0
