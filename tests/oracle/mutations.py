"""Damaged copies of small partitions: many of them as the partitions of one broker, each hurt in one way.

In: partition directories of captures, a seed. Out: a snapshot directory whose partitions are `hurt-0`, `hurt-1`, …, and
what was done to each. The same seed makes the same copies.
"""

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegauge.kafka_log.scan import scan_buffer

TOPIC: Final = "hurt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One damaged partition: where it was copied from and what happened to it."""

    partition: int
    source: str
    kind: str
    done: str


def flip_any_byte(draw: random.Random, directory: Path) -> str:
    log = _log(draw, directory)
    return _flip(draw, log, draw.randrange(log.stat().st_size))


def flip_header_byte(draw: random.Random, directory: Path) -> str:
    log = _log(draw, directory)
    headers, _ = scan_buffer(log.read_bytes())
    return _flip(draw, log, int(draw.choice(headers["position"].tolist())) + draw.randrange(61))


def flip_record_byte(draw: random.Random, directory: Path) -> str:
    log = _log(draw, directory)
    headers, _ = scan_buffer(log.read_bytes())
    row = draw.choice(headers.tolist())
    position, size = row[0], row[1]
    return _flip(draw, log, position + draw.randrange(61, max(size, 62)))


def cut_log(draw: random.Random, directory: Path) -> str:
    log = _log(draw, directory)
    return _cut(log, draw.randrange(log.stat().st_size))


def cut_last_log(draw: random.Random, directory: Path) -> str:
    log = sorted(directory.glob("*.log"))[-1]
    return _cut(log, draw.randrange(log.stat().st_size + 1))


def cut_log_between_batches(draw: random.Random, directory: Path) -> str:
    log = _log(draw, directory)
    headers, _ = scan_buffer(log.read_bytes())
    return _cut(log, int(draw.choice(headers["position"].tolist())))


def zeros_behind(draw: random.Random, directory: Path) -> str:
    log = sorted(directory.glob("*.log"))[-1]
    size = draw.randrange(1, 5000)
    with log.open("ab") as file:
        file.write(bytes(size))
    return f"{size} zeros behind {log.name}"


def swap_batches(draw: random.Random, directory: Path) -> str:
    log = _log(draw, directory)
    data = log.read_bytes()
    headers, _ = scan_buffer(data)
    rows = headers.tolist()
    at = draw.randrange(max(1, len(rows) - 1))
    pieces = [data[row[0] : row[0] + row[1]] for row in rows]
    pieces[at : at + 2] = reversed(pieces[at : at + 2])
    log.write_bytes(b"".join(pieces))
    return f"{log.name}: batches {at} and {at + 1} swapped"


def drop_batch(draw: random.Random, directory: Path) -> str:
    log = _log(draw, directory)
    data = log.read_bytes()
    headers, _ = scan_buffer(data)
    row = draw.choice(headers.tolist())
    log.write_bytes(data[: row[0]] + data[row[0] + row[1] :])
    return f"{log.name}: the batch at {row[0]} dropped"


def delete_derived(draw: random.Random, directory: Path) -> str:
    file = _derived(draw, directory)
    file.unlink()
    return f"{file.name} deleted"


def cut_derived(draw: random.Random, directory: Path) -> str:
    file = _derived(draw, directory)
    return _cut(file, draw.randrange(file.stat().st_size + 1))


def flip_derived(draw: random.Random, directory: Path) -> str:
    file = _derived(draw, directory)
    size = file.stat().st_size
    return _flip(draw, file, draw.randrange(size)) if size else "nothing"


KINDS: Final = (
    flip_any_byte, flip_header_byte, flip_record_byte, cut_log, cut_last_log, cut_log_between_batches, zeros_behind,
    swap_batches, drop_batch, delete_derived, cut_derived, flip_derived,
)  # fmt: skip


def damaged_copies(sources: Sequence[Path], target: Path, *, seed: int, count: int) -> list[Mutation]:
    """Makes the copies; each kind of damage meets each source in turn. Every second has a recovery point."""
    made = []
    recovery_points = []
    for partition in range(count):
        draw = random.Random(f"{seed}/{partition}")
        source = sources[partition // len(KINDS) % len(sources)]
        directory = target / "broker-1" / f"{TOPIC}-{partition}"
        directory.mkdir(parents=True)
        for file in source.iterdir():
            shutil.copyfile(file, directory / file.name)
        kind = KINDS[partition % len(KINDS)]
        bases = [int(path.stem) for path in sorted(directory.glob("*.log"))]
        if draw.randrange(2):
            recovery_points.append(f"{TOPIC} {partition} {draw.choice(bases) + draw.randrange(2)}")
        done = kind(draw, directory)
        made.append(Mutation(partition=partition, source="/".join(source.parts[-3:]), kind=kind.__name__, done=done))
    lines = ["0", str(len(recovery_points)), *recovery_points, ""]
    (target / "broker-1" / "recovery-point-offset-checkpoint").write_text("\n".join(lines))
    return made


def _log(draw: random.Random, directory: Path) -> Path:
    return draw.choice([path for path in sorted(directory.glob("*.log")) if path.stat().st_size])


def _derived(draw: random.Random, directory: Path) -> Path:
    suffixes = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")
    return draw.choice([path for path in sorted(directory.iterdir()) if path.name.endswith(suffixes)])


def _flip(draw: random.Random, file: Path, position: int) -> str:
    data = bytearray(file.read_bytes())
    bits = draw.choice((1 << draw.randrange(8), draw.randrange(1, 256)))
    data[position] ^= bits
    file.write_bytes(data)
    return f"{file.name}: byte {position} changed by {bits:#04x}"


def _cut(file: Path, size: int) -> str:
    with file.open("r+b") as opened:
        opened.truncate(size)
    return f"{file.name}: cut to {size} bytes"
