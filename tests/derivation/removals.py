"""Copies of captures that lack one kind of evidence: what somebody forgot to copy, a broker deleted, or a disk took.

In: an unpacked capture, read only. Out: `removals_of`, each kind of evidence that the capture has as a `Removal`, which
takes it out of a copy made by `linked`. Only what is named is gone; every byte that is left is Kafka's own, but for
metadata snapshots that stand for a beginning as Kafka's would.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from tests.derivation.metadata_damage import records_of
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.sim_engine.metadata.metadata_image import MetadataImage, image_records, replayed
from tidegauge.sim_engine.metadata.metadata_snapshot import at_once, snapshot_data

METADATA: Final = "__cluster_metadata-0"
META_PROPERTIES: Final = "meta.properties"
CHECKPOINTS: Final = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "leader-epoch-checkpoint",
)
INDEXES: Final = ("*.index", "*.timeindex", "*.txnindex")
_MIGRATION: Final = "ZkMigrationStateRecord"
"""How far a migration from a ZooKeeper has come, or that there was none. No simulated cluster says so."""
_NOT_OF_A_NODE: Final = frozenset({"config", "dump-log", "elsewhere"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What is removed, and how it is taken out of a copy."""

    name: str
    take: Callable[[Path], None]


def linked(capture: Path, target: Path) -> Path:
    """A copy whose files are links: what is removed there stays in the capture, and nothing may be written to."""
    shutil.copytree(capture, target, copy_function=os.link, ignore=shutil.ignore_patterns(*_NOT_OF_A_NODE))
    return target


def removals_of(capture: Path) -> Iterator[Removal]:
    """Every kind of evidence that a capture has, one by one."""
    yield Removal(name="metadata log", take=_without_metadata_logs)
    for share in (50, 90):
        forget = partial(_beginning_forgotten, percent=share, snapshot=True)
        yield Removal(name=f"{share} % of the metadata log", take=forget)
    bare = partial(_beginning_forgotten, percent=90, snapshot=False)
    yield Removal(name="90 % of the metadata log, no metadata snapshot", take=bare)
    for home in sorted(capture.glob("broker-*")):
        yield Removal(name=home.name, take=partial(_without_directory, name=home.name))
    yield Removal(name="checkpoints", take=partial(_without_files, patterns=CHECKPOINTS))
    for name in CHECKPOINTS:
        yield Removal(name=name, take=partial(_without_files, patterns=(name,)))
    for log_dir in sorted(capture.glob(f"broker-*/*/{META_PROPERTIES}")):
        place = str(log_dir.parent.relative_to(capture))
        yield Removal(name=place, take=partial(_without_directory, name=place))
    yield Removal(name="producer snapshots", take=partial(_without_files, patterns=("*.snapshot",)))
    yield Removal(name="indexes", take=partial(_without_files, patterns=INDEXES))
    yield Removal(name="transaction indexes", take=partial(_without_files, patterns=("*.txnindex",)))
    yield Removal(name="meta.properties", take=partial(_without_files, patterns=(META_PROPERTIES,)))


def _without_metadata_logs(directory: Path) -> None:
    for path in sorted(directory.rglob(METADATA)):
        shutil.rmtree(path)


def _without_directory(directory: Path, *, name: str) -> None:
    for path in (directory / name, directory / "metadata-first" / name):
        if path.exists():
            shutil.rmtree(path)


def _without_files(directory: Path, *, patterns: Iterable[str]) -> None:
    """Of nodes' directories: what else was copied with them stays."""
    for home in sorted(directory.rglob("broker-*")):
        for pattern in patterns:
            for path in sorted(home.rglob(pattern)):
                path.unlink()


def _beginning_forgotten(directory: Path, *, percent: int, snapshot: bool) -> None:
    """What retention does to each node's copy of the metadata log; without `snapshot`, what no Kafka would do: who
    copied it forgot the snapshot that stands for the beginning.
    """
    for log_dir in sorted(directory.rglob(METADATA)):
        logs = sorted(log_dir.glob("*.log"))
        headers = [scan_buffer(log.read_bytes())[0] for log in logs]
        starts = sorted(int(at) for of_log in headers for at in of_log["base_offset"])
        # Of a log whose beginning is gone, what is below its oldest snapshot cannot be told.
        told = min((int(p.name[:20]) for p in log_dir.glob("*.checkpoint")), default=0) if starts[0] > 1 else 0
        cut = max(starts[len(starts) * percent // 100], next(at for at in starts if at >= told))
        kept = _snapshot_at(log_dir, cut) if snapshot else None
        for path in sorted(log_dir.glob("*.checkpoint")):
            if not snapshot or int(path.name[:20]) <= cut:
                path.unlink()
        for log, of_log in zip(logs, headers, strict=True):
            if cut > int(of_log[0]["base_offset"]):
                _cut_before(log, of_log[of_log["base_offset"] >= cut])
        if kept is not None:
            name, data = kept
            (log_dir / name).write_bytes(data)


def _cut_before(log: Path, left: NDArray[Any]) -> None:
    """Leaves these batches of a segment, under the name of the first; none: removes it with its indexes."""
    data = log.read_bytes()
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()
    if len(left):
        first = left[0]
        (log.parent / f"{int(first['base_offset']):020d}.log").write_bytes(data[int(first["position"]) :])


def _snapshot_at(log_dir: Path, end_offset: int) -> tuple[str, bytes]:
    """The name and the bytes of the metadata snapshot that a node would have of all that is below an offset."""
    logs = sorted(log_dir.glob("*.log"))
    base = int(logs[0].stem)
    earlier = [p for p in sorted(log_dir.glob("*.checkpoint")) if base <= int(p.name[:20]) <= end_offset]
    newest = max(earlier, key=lambda p: p.name, default=None)
    told = records_of(newest) if newest is not None else []
    from_offset = int(newest.name[:20]) if newest is not None else 0
    assert from_offset >= base or base == 0, f"{log_dir} begins at {base}, and no snapshot reaches it"
    rows = [row for log in logs for row in scan_buffer(log.read_bytes())[0] if row["base_offset"] < end_offset]
    after = [r for log in logs for offset, r in records_of(log) if from_offset <= offset < end_offset]
    records = [*(record for _, record in told), *after]
    image = replayed(MetadataImage(), [r for r in records if r.name != _MIGRATION])
    migration = [r for r in records if r.name == _MIGRATION][-1:]
    epoch, clock = int(rows[-1]["partition_leader_epoch"]), at_once(int(rows[-1]["max_timestamp"]))
    data = snapshot_data([*image_records(image), *migration], leader_epoch=epoch, voters=(), clock=clock)
    return f"{end_offset:020d}-{epoch:010d}.checkpoint", data
