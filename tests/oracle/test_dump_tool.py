"""Kafka's dump tool, started now, as a second witness: on captures that came without its output, and on damaged logs.

It is a program of its own (kafka-tools 4.3), which reads files without loading a log.
"""

import gzip
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.java.libraries import classpath, tool
from tests.kafka_log.kafka_dump import dumped_files
from tests.kafka_log.kafka_dump_lines import dumped_lines
from tests.kafka_log.kafka_json import difference, payload_of
from tests.kafka_log.test_producer_snapshot import line_of
from tidegauge.kafka_log.indexes import parse_offset_index, parse_time_index
from tidegauge.kafka_log.metadata_records import METADATA_SCHEMAS, MetadataRecord, decode_metadata_record
from tidegauge.kafka_log.producer_snapshot import parse_producer_snapshot
from tidegauge.kafka_log.records import records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.transaction_index import parse_transaction_index

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

DIRECTORIES = (
    ("pair-clean-b2", "broker-1/txn-0"),
    ("pair-clean-b2", "broker-1/compacttx-0"),
    ("pair-clean-b2", "broker-1/events-0"),
    ("tiered", "broker-1/tiertx-0"),
    ("soak-01", "broker-1/txn-0"),
    ("epochs", "broker-1/bursty-0"),
)
PRINTED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def dumped(into: Path, files: Sequence[Path], *options: str) -> Path:
    """Runs the tool; keeps what it prints where the parsers of stored dumps look for it."""
    done = subprocess.run(
        [
            tool("java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF",
            "-cp", classpath("kafka-tools-4.3"), "org.apache.kafka.tools.DumpLogSegments",
            *options, "--files", ",".join(map(str, files)),
        ],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (into / "dump-log").mkdir(parents=True)
    with gzip.open(into / "dump-log" / "snapshots_txnindexes.txt.gz", "wt", encoding="utf-8") as kept:
        kept.write(done.stdout + f"Dumping {os.devnull}\n")
    return into


@pytest.fixture(scope="module")
def printed(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = [f for c, d in DIRECTORIES for f in sorted((golden(c) / d).iterdir()) if f.name.endswith(PRINTED)]
    return dumped(tmp_path_factory.mktemp("printed"), files)


def compare_batches(printed: Path) -> Iterator[bool]:
    """Compares every batch of every dumped log; yields whether its checksum was right."""
    for path, batches in dumped_files(printed):
        rows, _ = scan_buffer(path.read_bytes())
        for row, batch in zip(rows, batches, strict=False):
            assert {name: int(row[name]) for name in batch.fields} == batch.fields, path
            yield bool(row["crc_valid"])
        assert len(rows) == len(batches), path


def test_batches_are_those_that_the_tool_prints(printed: Path) -> None:
    found = list(compare_batches(printed))
    assert len(found) > 150
    assert all(found)


def test_index_entries_are_those_that_the_tool_prints(printed: Path) -> None:
    compared = 0
    for path, lines in dumped_lines(printed, ".index"):
        size = path.with_suffix(".log").stat().st_size
        index = parse_offset_index(path.read_bytes(), base_offset=int(path.stem), log_size_bytes=size, active=True)
        if index.padding_bytes:
            continue  # The zeros of a preallocated index are an entry to the tool.
        pairs = zip(index.offsets.tolist(), index.positions.tolist(), strict=True)
        assert [f"offset: {offset} position: {position}" for offset, position in pairs] == [
            line for line in lines if line.startswith("offset: ")
        ], path
        compared += len(index.offsets)
    for path, lines in dumped_lines(printed, ".timeindex"):
        times = parse_time_index(path.read_bytes(), base_offset=int(path.stem), active=True)
        if times.padding_bytes:
            continue
        pairs = zip(times.timestamps.tolist(), times.offsets.tolist(), strict=True)
        assert [f"timestamp: {timestamp} offset: {offset}" for timestamp, offset in pairs] == [
            line for line in lines if line.startswith("timestamp: ")
        ], path
        compared += len(times.offsets)
    assert compared > 30


def test_transactions_and_producers_are_those_that_the_tool_prints(printed: Path) -> None:
    compared = 0
    for path, lines in dumped_lines(printed, ".txnindex"):
        assert [
            f"version: 0 producerId: {e.producer_id} firstOffset: {e.first_offset} lastOffset: {e.last_offset} "
            f"lastStableOffset: {e.last_stable_offset}"
            for e in parse_transaction_index(path.read_bytes()).entries
        ] == lines, path
        compared += len(lines)
    for path, lines in dumped_lines(printed, ".snapshot"):
        entries = parse_producer_snapshot(path.read_bytes()).entries
        assert sorted(line_of(entry) for entry in entries) == sorted(lines), path
        compared += len(lines)
    assert compared > 10


def test_a_wrong_checksum_and_a_torn_tail_are_where_the_tool_sees_them(golden: Golden, tmp_path: Path) -> None:
    source = golden("pair-clean-b2") / "broker-1" / "events-0" / f"{0:020d}.log"
    rows, _ = scan_buffer(source.read_bytes())
    flipped, torn = (tmp_path / name / source.name for name in ("flipped", "torn"))
    for path in (flipped, torn):
        path.parent.mkdir()
        shutil.copyfile(source, path)
    data = bytearray(source.read_bytes())
    data[int(rows[1]["position"]) + 70] ^= 1
    flipped.write_bytes(data)
    with torn.open("r+b") as file:
        file.truncate(len(data) - 17)
    seen = list(compare_batches(dumped(tmp_path, [flipped, torn])))
    assert seen.count(False) == 1
    assert len(seen) == 2 * len(rows) - 1
    with gzip.open(tmp_path / "dump-log" / "snapshots_txnindexes.txt.gz", "rt", encoding="utf-8") as text:
        said = [line for line in text if "invalid bytes" in line]
    _, (damage,) = scan_buffer(torn.read_bytes())
    assert len(said) == 1
    assert f"Found {damage.end_position - damage.position} invalid bytes at the end of {torn.name}" in said[0]


def test_metadata_records_are_those_that_the_tool_prints(golden: Golden, tmp_path: Path) -> None:
    captures = ("tiered", "kafka-4.1", "kafka-3.9")
    logs = [golden(c) / "broker-1" / "__cluster_metadata-0" / f"{0:020d}.log" for c in captures]
    compared = 0
    for path, batches in dumped_files(dumped(tmp_path, logs, "--cluster-metadata-decoder")):
        data = path.read_bytes()
        headers, _ = scan_buffer(data)
        decoded = records_in(data, headers[headers["control_type"] == -1])
        values = [r.value or b"" for _, records in decoded if isinstance(records, tuple) for r in records]
        texts = [r["rest"] for b in batches if not b.fields["attributes"] & 0x20 for r in b.records]
        for value, text in zip(values, texts, strict=True):
            said, record = payload_of(text), decode_metadata_record(value)
            assert isinstance(record, MetadataRecord)
            assert said is not None
            assert said["type"].replace("_", "") == record.name.upper()
            assert difference(said["data"], record.fields, METADATA_SCHEMAS[record.type_id].fields, record.name) is None
            compared += 1
    assert compared > 300
