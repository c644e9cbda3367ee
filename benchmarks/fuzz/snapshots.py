"""Whole snapshots with some of their files damaged: their facts derived in this process, and audited by the command.

In: golden captures, unpacked. Out: the kinds `derive` and `audit`. The rules that must hold: of a capture's files those
that stay as they are are links to one copy, which nobody writes to; and each kind of file is damaged as often as any
other, however many there are of it.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any, Final

from benchmarks.fuzz.audits import audited
from benchmarks.fuzz.corpus import GOLDEN, headers_file
from benchmarks.fuzz.documents import answers_of
from benchmarks.fuzz.formats import damaged_headers_file, damaged_log, damaged_producer_snapshot
from benchmarks.fuzz.kinds import Kind
from benchmarks.fuzz.mutate import TEXTS, damaged, damaged_json, damaged_lines
from tidegauge.derivation.in_process import derive_here
from tidegauge.embedded.archive import unpack
from tidegauge.kafka_log.log_dir import headers_name
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.runs.pairs import check_pair
from tidegauge.runs.run import AuditedSnapshot, ReadSnapshot
from tidegauge.snapshots.adopt import open_snapshot, survey
from tidegauge.snapshots.cluster_answers import ANSWERS_NAME
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import MANIFEST_NAME, Consistency, to_json

CAPTURES: Final = (
    "controllers", "disk-failed", "format-upgraded", "hanging-txn", "migrated-unclean", "one-controller-unclean",
    "quorum-changed-unclean", "shares", "streams", "tiered", "zookeeper-unclean",
)  # fmt: skip
AUDITED_TOGETHER: Final = 25
_READ: Final = 1 << 20
"""Bytes of a file that may be damaged; what lies behind them, an index's zeros, stays."""
_LINES: Final = frozenset({"-checkpoint", "-epoch-checkpoint", "meta.properties", "partition.metadata"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A capture: its files by what they are, its manifest and what its cluster might have answered, as JSON."""

    root: Path
    files: tuple[str, ...]
    by_kind: Mapping[str, tuple[str, ...]]
    manifest: str
    answers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """A capture with changes: path -> bytes and the size up to which zeros follow, or None for a file that is gone.

    `moved` are directories under other names. `sizes_told`: the manifest tells the sizes that the files have now.
    `compared`: with the capture as it was.
    """

    base: Base
    changes: Mapping[str, tuple[bytes, int] | None]
    moved: Mapping[str, str]
    manifest: str | None
    sizes_told: bool
    answers: str | None
    compared: bool


def whole(scratch: Path) -> tuple[Kind, ...]:
    """Both kinds; what they write goes below a directory of their own."""
    make = partial(damaged_snapshot, scratch / "captures")
    return (
        Kind(name="derive", make=make, read=partial(derived, scratch), keep=_keep),
        Kind(
            name="audit",
            make=make,
            read=partial(audited, scratch / "audits", _named),
            keep=_keep,
            together=AUDITED_TOGETHER,
            own_processes=True,
        ),
    )


@lru_cache
def base_of(captures: Path, name: str) -> Base:
    """A golden capture, unpacked once."""
    root = unpack(GOLDEN / f"{name}.tar.gz", captures / name)
    files = tuple(sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()))
    by_kind: dict[str, list[str]] = {}
    for path in files:
        if path.startswith("broker-"):
            by_kind.setdefault(kind_of(path), []).append(path)
    manifest = survey(root, cluster="c", snapshot_id=name, consistency=Consistency.ATOMIC)
    snapshot = AuditedSnapshot(root=root, target=captures / "facts", manifest=open_snapshot(root, cluster="c").manifest)
    return Base(
        root=root,
        files=files,
        by_kind={kind: tuple(by_kind[kind]) for kind in sorted(by_kind)},
        manifest=to_json(manifest),
        answers=answers_of(derive_here(snapshot).tables),
    )


def kind_of(path: str) -> str:
    """What a file is, by its name: one of Kafka's own logs is another thing than a user's."""
    name = PurePosixPath(path)
    if name.suffix in (".log", ".checkpoint"):
        return name.parent.name.rpartition("-")[0] if name.parent.name.startswith("__") else name.suffix
    for ending in ("-epoch-checkpoint", "-checkpoint"):
        if name.name.endswith(ending):
            return ending
    return name.suffix if name.name[0].isdigit() and name.suffix != "" else name.name


# -------------------------------------------------------------------------------------------------- how one is damaged


def damaged_snapshot(captures: Path, rng: Random) -> Damaged:
    """A capture with a few files damaged, gone, empty, exchanged or under other names."""
    base = base_of(captures, rng.choice(CAPTURES))
    changes: dict[str, tuple[bytes, int] | None] = {}
    for _ in range(rng.choice((0, 1, 1, 2, 3, 5, 8))):
        kind = rng.choice(list(base.by_kind))
        path = rng.choice(base.by_kind[kind])
        match rng.randrange(12):
            case 0:
                changes[path] = None
            case 1:
                changes[path] = (b"", 0)
            case 2:
                changes[path] = _contents(base, rng.choice(base.by_kind[kind]))
            case 3:
                changes[rng.choice(base.by_kind[rng.choice(list(base.by_kind))])] = _contents(base, path)
            case 4:
                changes[f"{path.rpartition('/')[0]}/{_other_name(rng, path)}"] = _contents(base, path)
            case 5 if path.endswith(".log"):
                changes[path] = None
                data = headers_file(_contents(base, path)[0])
                changes[headers_name(path)] = (damaged_headers_file(rng, data), 0)
            case _:
                changes[path] = _damaged_file(rng, base, path)
    directories = sorted({path.rpartition("/")[0] for path in base.files if path.startswith("broker-")})
    moved = {}
    if rng.random() < 0.1:
        path = rng.choice(directories)
        moved[path] = f"{path.rpartition('/')[0]}/{_other_name(rng, path)}".lstrip("/")
    manifest, sizes_told = _manifest(rng, base)
    return Damaged(
        base=base,
        changes=changes,
        moved=moved,
        manifest=manifest,
        sizes_told=sizes_told,
        answers=_answers(rng, base),
        compared=rng.random() < 0.3,
    )


def _contents(base: Base, path: str) -> tuple[bytes, int]:
    with (base.root / path).open("rb") as file:
        data = file.read(_READ)
        return data, os.fstat(file.fileno()).st_size


def _damaged_file(rng: Random, base: Base, path: str) -> tuple[bytes, int]:
    data, size = _contents(base, path)
    rest = size if size > len(data) else 0
    if path.endswith((".log", ".checkpoint")):
        batches = batches_of(data)
        return (damaged_log(rng, batches, batches) if batches else damaged(rng, data)), rest
    if path.endswith(".snapshot"):
        return damaged_producer_snapshot(rng, data), rest
    if path.endswith((".index", ".timeindex")):
        return damaged(rng, data.rstrip(b"\0")), size
    if path.endswith("quorum-state"):
        return json.dumps(damaged_json(rng, json.loads(data))).encode(), rest
    name = PurePosixPath(path).name
    if any(name.endswith(ending) for ending in _LINES):
        return damaged_lines(rng, data), rest
    return damaged(rng, data), rest


@lru_cache(maxsize=64)
def batches_of(log: bytes) -> tuple[bytes, ...]:
    """A sound log's batches."""
    rows, _ = scan_buffer(log)
    return tuple(log[int(row["position"]) : int(row["position"] + row["size_bytes"])] for row in rows)


def _other_name(rng: Random, path: str) -> str:
    """A file name, or a directory's, that might stand there: longer, shorter, with another number."""
    name = path.rpartition("/")[2]
    match rng.randrange(4):
        case 0:
            return name + rng.choice((".deleted", ".cleaned", ".swap", ".tmp", "-delete", ".x"))
        case 1:
            digits = [at for at, letter in enumerate(name) if letter.isdigit()] or [0]
            at = rng.choice(digits)
            return name[:at] + rng.choice("0123456789") + name[at + 1 :]
        case 2:
            return name[: rng.randrange(1, len(name) + 1)]
        case _:
            text = rng.choice([text for text in TEXTS if not {"/", "\0", "\udcff"} & set(text) and len(text) < 100])
            return f"{name}{text}"


def _manifest(rng: Random, base: Base) -> tuple[str | None, bool]:
    chance = rng.random()
    if chance < 0.25:
        return None, False
    value = json.loads(base.manifest)
    value["consistency"] = rng.choice(list(Consistency)).value
    value["answers"] = rng.choice((None, ANSWERS_NAME))
    return json.dumps(damaged_json(rng, value) if chance < 0.45 else value), chance > 0.6


def _answers(rng: Random, base: Base) -> str | None:
    chance = rng.random()
    if chance < 0.5:
        return None
    return base.answers if chance < 0.65 else json.dumps(damaged_json(rng, json.loads(base.answers)))


# ------------------------------------------------------------------------------------------------------- how it is read


def written(value: Damaged, directory: Path) -> Path:
    """The snapshot as a directory, which must not be there yet."""
    base = value.base
    for path in base.files:
        if path not in value.changes:
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(base.root / path, target)
    for path, change in value.changes.items():
        if change is not None:
            target = directory / path
            if target.is_dir():
                continue  # The name that was made up is a directory's.
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            data, size = change
            with target.open("wb") as file:
                file.write(data)
                file.truncate(max(size, len(data)))
    for before, after in value.moved.items():
        if (directory / before).exists() and not (directory / after).exists():
            (directory / before).rename(directory / after)
    if value.answers is not None:
        (directory / ANSWERS_NAME).write_text(value.answers, encoding="utf-8")
    if value.manifest is not None:
        text = _with_sizes(value.manifest, directory) if value.sizes_told else value.manifest
        (directory / MANIFEST_NAME).write_text(text, encoding="utf-8")
    return directory


def _with_sizes(manifest: str, directory: Path) -> str:
    value = json.loads(manifest)
    for broker in value["brokers"]:
        broker["files"] = [
            {**file, "size_bytes": (directory / file["path"]).stat().st_size}
            for file in broker["files"]
            if (directory / file["path"]).is_file()
        ]
    return json.dumps(value)


def derived(scratch: Path, value: Damaged) -> None:
    """Derives its facts. A snapshot that cannot be used is refused with a `SnapshotError`, which is no finding."""
    directory = scratch / f"derive-{os.getpid()}"
    shutil.rmtree(directory, ignore_errors=True)
    written(value, directory)
    try:
        opened = open_snapshot(directory, cluster="c")
        previous = None
        if value.compared:
            earlier = open_snapshot(value.base.root, cluster="c")
            earlier = replace(earlier, manifest=replace(earlier.manifest, cluster=opened.manifest.cluster))
            check_pair(opened.manifest, earlier.manifest)
            previous = ReadSnapshot(root=earlier.root, manifest=earlier.manifest)
        derive_here(
            AuditedSnapshot(root=opened.root, target=scratch / "facts", manifest=opened.manifest, previous=previous)
        )
    except SnapshotError as error:
        str(error).encode("utf-8", "backslashreplace")
    finally:
        shutil.rmtree(directory)


def _named(value: Damaged, directory: Path) -> Path:
    """The same under a name that no other has, as its manifest tells it where it is not damaged there."""
    if value.manifest is not None:
        told: Any = json.loads(value.manifest)
        if isinstance(told, dict) and told.get("snapshot_id") in CAPTURES:
            told["snapshot_id"] = directory.name
        value = replace(value, manifest=json.dumps(told))
    return written(value, directory)


def _keep(value: Damaged, path: str) -> None:
    written(value, Path(path))
