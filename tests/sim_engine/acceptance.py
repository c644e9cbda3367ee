"""What Kafka says of rendered disks: its dump tool, its log loader, a broker's own words when it starts on them.

In: disks, or a broker's log. Out: an assertion that fails where Kafka finds fault, or lists what it found. Kafka is
told what the files tell, and its facts are compared with what the simulator held in memory.
"""

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.java.libraries import classpath, tool
from tests.oracle.kafka import Oracle
from tests.sim_engine.rendered_cluster import write_disk
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.sim_engine.files.render import BrokerDisk
from tidegauge.sim_engine.log.replica_log import ReplicaLog

STRAY = "Loaded stray log"
_READ_BY_THE_TOOL = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
_INDEXES = (".index", ".timeindex")
_METADATA = "__cluster_metadata-0"
_FAULTS = ("isvalid: false", "invalid bytes", "Could not", "Mismatches", "Index sanity", "Exception", "not found")
_READERS_OF_FILES = (
    "(org.apache.kafka.storage.",
    "(org.apache.kafka.raft.",
    "(org.apache.kafka.image.",
    "(kafka.log.",
    "(kafka.raft.",
)
_CRC_VALID = 7


def dumped(files: Sequence[Path], *options: str) -> list[str]:
    """What the dump tool prints, all files in one process; it must not fail."""
    done = subprocess.run(
        [
            tool("java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF",
            "-cp", classpath("kafka-tools-4.3"), "org.apache.kafka.tools.DumpLogSegments",
            *options, "--files", ",".join(map(str, files)),
        ],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]


def faults(said: Iterable[str]) -> list[str]:
    """The lines in which the dump tool finds fault."""
    return [line for line in said if any(each in line for each in _FAULTS)]


def dump_tool_takes(disks: Iterable[BrokerDisk], directory: Path) -> int:
    """Renders the disks and has every file of them read; how many there were."""
    files: list[Path] = []
    for disk in disks:
        root = directory / f"broker-{disk.broker_id}"
        write_disk(disk, root)
        clean = disk.clean_broker_epoch is not None
        for path in sorted(p for p in root.rglob("*") if p.suffix in _READ_BY_THE_TOOL and p.stat().st_size):
            # Of an active segment the tool takes the zeros for entries, of real brokers' files too.
            waits = path.parent.name.endswith(("-delete", "-stray"))
            padded = path.suffix in _INDEXES and (not clean or waits or path.parent.name == _METADATA)
            if not padded:
                files.append(path)
    metadata = [p for p in files if p.parent.name == _METADATA and p.suffix != ".snapshot"]
    for options, named in (
        (("--deep-iteration",), [p for p in files if p not in metadata]),
        (("--cluster-metadata-decoder",), metadata),
        (("--offsets-decoder",), _logs_of(files, "__consumer_offsets")),
        (("--transaction-log-decoder",), _logs_of(files, "__transaction_state")),
    ):
        if named:
            said = dumped(named, *options)
            assert faults(said) == []
            assert sum(line.startswith("Dumping ") for line in said) == len(named)
    return len(files)


def loader_agrees(oracle: Oracle, disk: BrokerDisk, directory: Path) -> int:
    """Renders the disk; Kafka's loader finds of every log what the simulator knew; how many batches it read."""
    write_disk(disk, directory)
    count = 0
    for partition, replica in disk.replicas.items():
        kafka = oracle.ask(_load_job(disk, partition, directory))
        assert "error" not in kafka, f"{partition}: {kafka}"
        facts = _facts_of(replica.log)
        assert facts == {name: kafka[name] for name in facts}, partition
        assert {p[0]: p for p in kafka["producers"]} == _producers_of(replica.log), partition
        rows = [row for found in kafka["batches"].values() for row in found["rows"]]
        assert all(row[_CRC_VALID] for row in rows), partition
        count += len(rows)
    return count


def complaints(lines: Iterable[str], *, clean: bool) -> list[str]:
    """What a broker found wrong with its files: warnings of whoever reads them, logs that it cut or wrote anew.

    One that was killed reads its logs anew, and everybody the metadata log; that is no complaint. Nor is a stray log,
    nor that a quorum cuts what only one of its voters had.
    """
    found = []
    for line in lines:
        warned = (" WARN " in line or " ERROR " in line) and any(each in line for each in _READERS_OF_FILES)
        cut = "] Truncating to " in line and "has no effect" not in line and _METADATA not in line
        anew = clean and "Recovering unflushed segment" in line and _METADATA not in line
        if STRAY not in line and (warned or cut or anew or "corrupt" in line.lower()):
            found.append(line)
    return found


def _logs_of(files: Iterable[Path], topic: str) -> list[Path]:
    return [path for path in files if path.parent.name.startswith(f"{topic}-") and path.suffix == ".log"]


def _load_job(disk: BrokerDisk, partition: TopicPartition, directory: Path) -> dict[str, Any]:
    """What a broker would be told when it loads a rendered log."""
    return {
        "job": "load",
        "directory": str(directory / str(partition)),
        "name": str(partition),
        "clean": disk.clean_broker_epoch is not None,
        "log_start": disk.log_starts.get(partition, 0),
        "recovery_point": disk.recovery_points.get(partition, 0),
        "high_watermarks": [disk.high_watermarks.get(partition, 0)],
        "now_ms": 0,
        "remote": False,
        "keep_snapshots": True,
        "with_batches": True,
    }


def _facts_of(log: ReplicaLog) -> dict[str, Any]:
    """A simulated log, in the oracle's words. Loading drops an epoch in which nothing was written."""
    return {
        "log_start": log.log_start_offset,
        "log_end": log.log_end_offset,
        "epochs": [[e.leader_epoch, e.start_offset] for e in log.epochs if e.start_offset < log.log_end_offset],
        "segments": [[s.base_offset, s.size_bytes] for s in log.segments],
        "aborted": [
            [s.base_offset, t.producer_id, t.first_offset, t.last_offset, t.last_stable_offset]
            for s in log.segments
            for t in s.transaction_index
        ],
    }


def _producers_of(log: ReplicaLog) -> dict[int, list[int]]:
    """A simulated log's producers, in the order of a producer snapshot's fields."""
    return {
        state.producer_id: [
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.batches[-1].last_offset if state.batches else -1,
            state.batches[-1].last_offset - state.batches[-1].base_offset if state.batches else 0,
            state.last_timestamp,
            state.coordinator_epoch,
            -1 if state.transaction_first_offset is None else state.transaction_first_offset,
        ]
        for state in log.producers.states.values()
    }
