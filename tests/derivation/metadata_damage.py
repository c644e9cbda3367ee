"""Metadata logs and snapshots written anew, with other records in them, in a copy of a capture.

In: a copy of log directories, and what is to be said otherwise. Out: the same files, sound, with other records.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from tidegauge.kafka_log.batch import CONTROL_BIT
from tidegauge.kafka_log.metadata_records import (
    METADATA_SCHEMAS,
    MetadataRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from tidegauge.kafka_log.records import records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.schemas import FieldValue, default_of
from tidegauge.sim_engine.log.stored_batch import NewRecord, stored_batch
from tidegauge.sim_engine.metadata.metadata_image import MetadataImage, image_records, replayed
from tidegauge.sim_engine.metadata.metadata_snapshot import at_once, snapshot_data

Change = Callable[[int, MetadataRecord], MetadataRecord]
"""Offset and record -> the record that shall stand there."""


def metadata_record(name: str, version: int, /, **fields: FieldValue) -> MetadataRecord:
    """A record; what is not said has its default."""
    schema = next(s for s in METADATA_SCHEMAS.values() if s.name == name)
    values = {f.name: default_of(f) for f in schema.fields} | fields
    return MetadataRecord(type_id=schema.api_key, name=name, version=version, fields=values)


def metadata_logs(directory: Path) -> list[Path]:
    """Every node's metadata log, of one segment each."""
    return sorted(directory.glob(f"broker-*/__cluster_metadata-0/{0:020d}.log"))


def metadata_snapshots(directory: Path) -> list[Path]:
    """Every node's metadata snapshots, but for those they were formatted with."""
    return sorted(p for p in directory.glob("broker-*/__cluster_metadata-0/*.checkpoint") if int(p.name[:20]) > 0)


def records_of(path: Path) -> list[tuple[int, MetadataRecord]]:
    """A log's or a snapshot's records with their offsets."""
    found = []
    data = path.read_bytes()
    headers, _ = scan_buffer(data)
    for at, records in records_in(data, headers):
        assert isinstance(records, tuple)
        for each in records if headers[at]["control_type"] == -1 else ():
            decoded = decode_metadata_record(each.value or b"")
            assert isinstance(decoded, MetadataRecord)
            found.append((each.offset, decoded))
    return found


def rewrite(paths: Iterable[Path], change: Change, *, later_ms: int = 0) -> None:
    """Writes files anew; batches in which nothing changes stay as they are. `later_ms`: added to changed batches."""
    for path in paths:
        data = path.read_bytes()
        headers, _ = scan_buffer(data)
        parts = []
        for at, records in records_in(data, headers):
            row = headers[at]
            assert isinstance(records, tuple)
            start = int(row["position"])
            old = data[start : start + int(row["size_bytes"])]
            values = [each.value or b"" for each in records]
            if not int(row["attributes"]) & CONTROL_BIT:
                for index, each in enumerate(records):
                    before = decode_metadata_record(values[index])
                    assert isinstance(before, MetadataRecord)
                    after = change(each.offset, before)
                    if after is not before:
                        values[index] = encode_metadata_record(after)
            if values == [each.value or b"" for each in records]:
                parts.append(old)
                continue
            new = [
                NewRecord(timestamp=each.timestamp + later_ms, key=None, value=value)
                for each, value in zip(records, values, strict=True)
            ]
            made = stored_batch(
                new, base_offset=int(row["base_offset"]), leader_epoch=int(row["partition_leader_epoch"])
            )
            parts.append(made.data)
        os.unlink(path)  # A copy may be a link to the capture.
        path.write_bytes(b"".join(parts))


def at(offset: int, record: MetadataRecord) -> Change:
    """Puts a record in the place of the one at an offset."""
    return lambda found, before: record if found == offset else before


def without_head(directory: Path, keep_from: int) -> None:
    """Takes the older batches out of every node's log, up to its oldest snapshot that ends at an offset or above."""
    for log in metadata_logs(directory):
        ends = sorted(int(p.name[:20]) for p in log.parent.glob("*.checkpoint"))
        end = next(e for e in ends if e >= keep_from)
        data = log.read_bytes()
        headers, _ = scan_buffer(data)
        first = headers[headers["base_offset"] >= end][0]
        (log.parent / f"{int(first['base_offset']):020d}.log").write_bytes(data[int(first["position"]) :])
        for path in log.parent.glob(f"{0:020d}*"):
            path.unlink()
        for path in log.parent.glob("*.checkpoint"):
            if int(path.name[:20]) < end:
                path.unlink()
        (log.parent / "leader-epoch-checkpoint").unlink()
        epochs = {int(row["partition_leader_epoch"]): 0 for row in headers if row["base_offset"] >= end}
        starts = {e: max(end, int(headers[headers["partition_leader_epoch"] == e][0]["base_offset"])) for e in epochs}
        lines = [f"{epoch} {start}" for epoch, start in sorted(starts.items())]
        (log.parent / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def snapshot_taken(directory: Path, end_offset: int, *nodes: int) -> None:
    """Writes the metadata snapshot that each of these nodes would have of all that is below an offset of its log."""
    for node in nodes:
        log = directory / f"broker-{node}/__cluster_metadata-0/{0:020d}.log"
        headers, _ = scan_buffer(log.read_bytes())
        below = headers[headers["base_offset"] < end_offset]
        epoch = int(below[-1]["partition_leader_epoch"])
        formatted = [r for p in log.parent.glob(f"{0:020d}-*.checkpoint") for _, r in records_of(p)]
        image = replayed(MetadataImage(), formatted + [r for offset, r in records_of(log) if offset < end_offset])
        clock = at_once(int(below[-1]["max_timestamp"]))
        data = snapshot_data(image_records(image), leader_epoch=epoch, voters=(), clock=clock)
        (log.parent / f"{end_offset:020d}-{epoch:010d}.checkpoint").write_bytes(data)


def head_forgotten(directory: Path, end_offset: int, *nodes: int) -> None:
    """What a week does to the metadata logs of these nodes: a snapshot stands for all that is below an offset."""
    snapshot_taken(directory, end_offset, *nodes)
    for node in nodes:
        log = directory / f"broker-{node}/__cluster_metadata-0/{0:020d}.log"
        data = log.read_bytes()
        headers, _ = scan_buffer(data)
        first = headers[headers["base_offset"] >= end_offset][0]
        (log.parent / f"{int(first['base_offset']):020d}.log").write_bytes(data[int(first["position"]) :])
        for path in (*log.parent.glob(f"{0:020d}.*"), *log.parent.glob(f"{0:020d}-*")):
            path.unlink()
