"""What Kafka's own dump tool (`DumpLogSegments`) printed about a capture's files, read back.

In: the `dump-log/*.txt.gz` of a capture. Out: per file the batches, and per batch the records where the tool was asked
for them.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_BATCH = re.compile(
    r"baseOffset: (?P<base_offset>-?\d+) lastOffset: (?P<last_offset>-?\d+) count: (?P<record_count>\d+) "
    r"baseSequence: (?P<base_sequence>-?\d+) lastSequence: -?\d+ producerId: (?P<producer_id>-?\d+) "
    r"producerEpoch: (?P<producer_epoch>-?\d+) partitionLeaderEpoch: (?P<partition_leader_epoch>-?\d+) "
    r"isTransactional: (?P<transactional>\w+) isControl: (?P<control>\w+) "
    r"deleteHorizonMs: OptionalLong(\.empty|\[(?P<delete_horizon>\d+)\]) position: (?P<position>\d+) "
    r"(?P<timestamp_type>\w+): (?P<max_timestamp>-?\d+) size: (?P<size_bytes>\d+) magic: (?P<magic>\d+) "
    r"compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: (?P<valid>\w+)"
)
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) \w+: (?P<timestamp>-?\d+) "
    r"keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+)"
    r".* headerKeys: \[(?P<header_keys>[^]]*)\](?P<rest>.*)"
)
_CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass
class DumpedBatch:
    """One line about a batch: the fields under the names of `BATCH_HEADER`, attributes put together again."""

    fields: dict[str, int]
    delete_horizon: int | None
    records: list[dict[str, str]] = field(default_factory=list)


def dumped_files(capture: Path) -> Iterator[tuple[Path, list[DumpedBatch]]]:
    """Give every log file that the tool dumped, with its batches."""
    for dump in sorted((capture / "dump-log").glob("*.txt.gz")):
        path, batches = None, list[DumpedBatch]()
        with gzip.open(dump, "rt", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("Dumping "):
                    if path is not None:
                        yield path, batches
                    name = line.removeprefix("Dumping ").strip()
                    path = capture / name if name.endswith((".log", ".checkpoint")) else None
                    batches = []
                elif path is not None and (batch := _BATCH.match(line)):
                    batches.append(_batch(batch))
                elif path is not None and batches and (record := _RECORD.match(line)):
                    batches[-1].records.append(record.groupdict())
        if path is not None:
            yield path, batches


def _batch(match: re.Match[str]) -> DumpedBatch:
    text = match.groupdict()
    horizon = text["delete_horizon"]
    names = "base_offset last_offset record_count base_sequence producer_id producer_epoch partition_leader_epoch "
    names += "position max_timestamp size_bytes magic crc"
    fields = {name: int(text[name]) for name in names.split()}
    fields["crc_valid"] = int(text["valid"] == "true")
    fields["attributes"] = (
        _CODECS[text["codec"]]
        | 0x08 * (text["timestamp_type"] == "LogAppendTime")
        | 0x10 * (text["transactional"] == "true")
        | 0x20 * (text["control"] == "true")
        | 0x40 * (horizon is not None)
    )
    return DumpedBatch(fields, None if horizon is None else int(horizon))
