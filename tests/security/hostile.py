"""Snapshots made to attack whoever audits them: one kind a function.

In: a directory with a small sound snapshot. Out: the same, changed. Each leaves a snapshot that looks like any other:
with a manifest that names what was put there, where it takes one.
"""

import json
import os
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.fuzz.formats import made_right
from tests.snapshots.one_manifest import in_one_file
from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.snapshots.manifest import MANIFEST_NAME

MARK: Final = "code-of-the-snapshot-ran"
"""A file of this name appears beside the working directory as soon as one of its modules is imported."""
SECRET: Final = "root:$6$secret:19000:0:99999:7:::"


def with_modules(directory: Path) -> Path:
    """A module of the name of each that Python, Spark and we import, which leaves a mark; returns the mark's path."""
    mark = directory.parent / MARK
    names = {n for n in sys.stdlib_module_names if not n.startswith("_")} | {
        "click", "google_crc32c", "great_expectations", "kafka_log", "numpy", "pandas", "psycopg2", "py4j", "pyarrow",
        "pyspark", "sitecustomize", "snapshots", "spark_jobs", "sqlalchemy", "tidegauge", "usercustomize", "yaml",
    }  # fmt: skip
    for name in sorted(names):
        (directory / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r} + '\\n')\n", encoding="utf-8")
    return mark


def secret_beside(directory: Path) -> Path:
    """A file that is none of the snapshot's."""
    path = directory.parent / "secret"
    path.write_text(f"{SECRET}\n" * 100, encoding="utf-8")
    return path


def _replace(path: Path, put: Callable[[Path], object]) -> None:
    path.unlink()
    put(path)


def a_checkpoint_is_a_link(directory: Path) -> str:
    secret = secret_beside(directory)
    path = "broker-1/replication-offset-checkpoint"
    _replace(directory / path, lambda p: p.symlink_to(secret))
    return path


def a_log_is_a_link(directory: Path) -> str:
    secret = secret_beside(directory)
    path = str(next(iter(sorted(directory.glob("broker-1/orders-0/*.log")))).relative_to(directory))
    _replace(directory / path, lambda p: p.symlink_to(secret))
    return path


def a_directory_is_a_link(directory: Path) -> str:
    """To one outside with the same files in it, so that only the link tells."""
    elsewhere = directory.parent / "elsewhere"
    (directory / "broker-1/orders-0").rename(elsewhere)
    (directory / "broker-1/orders-0").symlink_to(elsewhere)
    return "broker-1/orders-0"


def a_checkpoint_is_a_pipe(directory: Path) -> str:
    path = "broker-1/recovery-point-offset-checkpoint"
    _replace(directory / path, lambda p: os.mkfifo(p))
    return path


def a_log_is_a_pipe(directory: Path) -> str:
    path = str(next(iter(sorted(directory.glob("broker-1/orders-0/*.log")))).relative_to(directory))
    _replace(directory / path, lambda p: os.mkfifo(p))
    return path


def meta_properties_is_a_pipe(directory: Path) -> str:
    path = "broker-1/meta.properties"
    _replace(directory / path, lambda p: os.mkfifo(p))
    return path


def a_checkpoint_is_endless(directory: Path) -> str:
    path = "broker-2/replication-offset-checkpoint"
    _replace(directory / path, lambda p: p.symlink_to("/dev/zero"))
    return path


def a_checkpoint_is_a_device(directory: Path) -> str:
    """Only root may make one; anybody else gets a socket, which is no file either."""
    path = directory / "broker-2/replication-offset-checkpoint"
    path.unlink()
    if os.geteuid() == 0:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    else:
        os.mknod(path, 0o600 | stat.S_IFSOCK)
    return "broker-2/replication-offset-checkpoint"


def a_checkpoint_is_huge(directory: Path) -> str:
    """Three GiB, none of which is on the disk."""
    path = "broker-2/replication-offset-checkpoint"
    with (directory / path).open("r+b") as file:
        file.truncate(3 << 30)
    manifest = in_one_file(directory)
    for broker in manifest["brokers"]:
        for entry in broker["files"]:
            if entry["path"] == path:
                entry["size_bytes"] = 3 << 30
    (directory / MANIFEST_NAME).write_text(json.dumps(manifest), encoding="utf-8")
    return path


NOT_FILES: Final[Mapping[str, Callable[[Path], str]]] = {
    made.__name__: made
    for made in (
        a_checkpoint_is_a_link,
        a_log_is_a_link,
        a_directory_is_a_link,
        a_checkpoint_is_a_pipe,
        a_log_is_a_pipe,
        meta_properties_is_a_pipe,
        a_checkpoint_is_endless,
        a_checkpoint_is_a_device,
        a_checkpoint_is_huge,
    )
}
"""What Kafka never leaves, by what it is; each returns the path that is not to be read."""


def _with_numbers(batch: bytes, *fields: tuple[int, int, int]) -> bytes:
    """A batch with other numbers (place, bytes, value) in its header, and the checksum that they ask for."""
    changed = bytearray(batch)
    for at, size, value in fields:
        changed[at : at + size] = value.to_bytes(size, "big", signed=True)
    return made_right(bytes(changed))


def _with_batches(directory: Path, pattern: str, change: Callable[[int, bytes], bytes]) -> None:
    for path in sorted(directory.glob(pattern)):
        data = path.read_bytes()
        rows, _ = scan_buffer(data)
        batches = [data[int(row["position"]) : int(row["position"] + row["size_bytes"])] for row in rows]
        path.write_bytes(b"".join(change(at, batch) for at, batch in enumerate(batches)))


def base_offsets_at_the_ends(directory: Path) -> None:
    """No checksum covers them: one turned bit does it."""
    ends = (-(2**63), 2**62, 2**63 - 2**31, -1)

    def change(at: int, batch: bytes) -> bytes:
        return _with_numbers(batch, (layout.BASE_OFFSET_AT, 8, ends[at // 3 % 4])) if at % 3 == 1 else batch

    _with_batches(directory, "broker-*/*-0/*.log", change)


def timestamps_at_the_ends(directory: Path) -> None:
    def change(at: int, batch: bytes) -> bytes:
        fields = [(place, 8, (MOST, LEAST)[at % 2]) for place in (layout.BASE_TIMESTAMP_AT, layout.MAX_TIMESTAMP_AT)]
        return _with_numbers(batch, *fields) if at % 3 else batch

    _with_batches(directory, "broker-[123]/[a-z]*/*.log", change)


def producers_at_the_ends(directory: Path) -> None:
    """Their ids, epochs and sequences, and those of the epochs under which they wrote."""

    def change(at: int, batch: bytes) -> bytes:
        largest = (layout.PRODUCER_ID_AT, 8, MOST), (layout.PRODUCER_EPOCH_AT, 2, 2**15 - 1)
        later = (layout.BASE_SEQUENCE_AT, 4, 2**31 - 1), (layout.LEADER_EPOCH_AT, 4, 2**31 - 1)
        return _with_numbers(batch, *(largest, later, (*largest, *later))[at % 3])

    _with_batches(directory, "broker-[12]/[a-z]*/*.log", change)


def checkpoints_at_the_ends(directory: Path) -> None:
    for path in sorted(directory.glob("broker-*/**/*-checkpoint")):
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            changed = [f"{line.rpartition(' ')[0]} {MOST - at % 2}" for at, line in enumerate(lines[2:])]
            path.write_text("\n".join([*lines[:2], *changed, ""]), encoding="utf-8")


def a_segment_ends_below_its_base(directory: Path) -> None:
    """By more offsets than 64 bits count: the last batch of the second segment is the one with the turned bit."""
    for path in sorted(directory.glob("broker-*/orders-0/00000000000000000000.log")):
        data = path.read_bytes()
        rows, _ = scan_buffer(data)
        middle, last = (int(rows[at]["position"]) for at in (len(rows) // 2, -1))
        path.write_bytes(data[:middle])
        second = path.with_name(f"{int(rows[len(rows) // 2]['base_offset']):020}.log")
        second.write_bytes(data[middle:last] + _with_numbers(data[last:], (layout.BASE_OFFSET_AT, 8, LEAST)))


def committed_offsets_at_the_ends(directory: Path) -> None:
    """Those that the small world's group committed last."""
    ends = {100: LEAST, 33: MOST}
    _with_batches(directory, "broker-*/__consumer_offsets-*/*.log", lambda _, batch: _exchanged(batch, ends))


def coordinators_instants_at_the_ends(directory: Path) -> None:
    """Eight bytes that read as an instant of the day of the batch are one."""

    def change(at: int, batch: bytes) -> bytes:
        day = int.from_bytes(batch[layout.MAX_TIMESTAMP_AT :][:8], "big") // 86_400_000
        values = (int.from_bytes(batch[place : place + 8], "big") for place in range(layout.RECORDS_AT, len(batch) - 7))
        return _exchanged(batch, {value: (MOST, LEAST)[at % 2] for value in values if value // 86_400_000 == day})

    _with_batches(directory, "broker-*/__[ct][or]*/*.log", change)


def _exchanged(batch: bytes, numbers: Mapping[int, int]) -> bytes:
    """A batch whose records hold other numbers of eight bytes."""
    head, records = batch[: layout.RECORDS_AT], batch[layout.RECORDS_AT :]
    for value, other in numbers.items():
        records = records.replace(value.to_bytes(8, "big", signed=True), other.to_bytes(8, "big", signed=True))
    return made_right(head + records)


MOST: Final = 2**63 - 1
LEAST: Final = -(2**63)
EXTREME: Final[Mapping[str, Callable[[Path], None]]] = {
    made.__name__: made
    for made in (
        base_offsets_at_the_ends,
        timestamps_at_the_ends,
        producers_at_the_ends,
        checkpoints_at_the_ends,
        a_segment_ends_below_its_base,
        committed_offsets_at_the_ends,
        coordinators_instants_at_the_ends,
    )
}
"""Numbers at the ends of their types, each behind a checksum that is right."""


def manifest_of(directory: Path) -> Any:
    return json.loads((directory / MANIFEST_NAME).read_text(encoding="utf-8"))
