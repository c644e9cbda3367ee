"""Indexes with room at their end, in an object store: the room is not stored, and nobody reads other facts for it."""

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.conftest import Golden
from tests.derivation.pipeline import derived
from tests.object_store.requests import counted
from tests.object_store.s3_server import BUCKET, S3Server
from tests.object_store.test_capture_to_url import place, stripped, verified
from tidegauge.cli.main import main
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.location import FIRST_READ_BYTES

pytestmark = pytest.mark.slow

ROOM = {"index": 10 << 20, "timeindex": (10 << 20) // 12 * 12}
"""segment.index.bytes by default, in whole entries (AbstractIndex)."""


def as_while_it_ran(stopped: Path, to: Path) -> int:
    """A stopped cluster's log dirs with the room that running brokers keep in their active segments' indexes. The
    number of replicas.
    """
    shutil.copytree(stopped, to)
    active = [max(logs) for logs in (sorted(d.glob("*.log")) for d in to.glob("broker-*/**/")) if logs]
    for log in active:
        for kind, size in ROOM.items():
            if (index := log.with_suffix(f".{kind}")).exists():
                os.truncate(index, size)
    return len(active)


@pytest.fixture(scope="module")
def running(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    source = tmp_path_factory.mktemp("running") / "logs"
    return source, as_while_it_ran(golden("unclean-before"), source)


def captured(source: Path, out: str | Path, snapshot_id: str, mode: str) -> dict[str, object]:
    brokers = [word for broker in (1, 2, 3) for word in ("--broker", f"{broker}={source / f'broker-{broker}'}")]
    words = ["capture", "--cluster", "prod", *brokers, "--mode", mode, "--out", str(out), "--id", snapshot_id, "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("mode", ["full", "headers"])
def test_room_is_told_not_stored_and_the_facts_are_those_of_a_directory(
    s3: S3Server, running: tuple[Path, int], mode: str, tmp_path: Path
) -> None:
    source, replicas = running
    captured(source, f"s3://{BUCKET}/room-{mode}", "one", mode)
    captured(source, tmp_path, "one", mode)
    there, here = place(f"room-{mode}/prod/one"), tmp_path / "prod" / "one"

    told = sum(file.zeros_behind for file in open_snapshot(there).manifest.files())
    assert told > replicas * 15_000_000
    held = sum(file.stat().st_blocks * 512 for file in here.rglob("*") if file.is_file())
    assert sum(there.sizes_below().values()) <= held
    verified(there)

    ours, theirs = derived(there), derived(here)
    assert ours.rows.keys() == theirs.rows.keys()
    for relation in ours.rows:
        assert [stripped(row) for row in ours.all(relation)] == [stripped(row) for row in theirs.all(relation)]
    assert ours.unread() == theirs.unread()
    assert {row["size_bytes"] for row in ours.all("index_files", is_active=True)} >= set(ROOM.values())


def test_a_later_capture_links_what_it_linked(s3: S3Server, running: tuple[Path, int]) -> None:
    source, _ = running
    captured(source, f"s3://{BUCKET}/room-again", "one", "full")
    told = captured(source, f"s3://{BUCKET}/room-again", "two", "full")
    assert told["previous"] == "one"
    assert isinstance(told["linked_files"], int)
    assert told["linked_files"] > 0
    verified(place("room-again/prod/two"))
    entries = [{f.path: f.zeros_behind for f in open_snapshot(place(f"room-again/prod/{name}")).manifest.files()}
               for name in ("one", "two")]  # fmt: skip
    assert entries[0] == entries[1]


def test_an_index_whose_stored_bytes_were_changed_is_found(s3: S3Server, running: tuple[Path, int]) -> None:
    source, _ = running
    captured(source, f"s3://{BUCKET}/room-changed", "one", "full")
    root = place("room-changed/prod/one")
    with_room = [f for f in open_snapshot(root).manifest.files() if f.zeros_behind and f.size_bytes]
    index = root / with_room[0].path
    index.write_bytes(bytes([index.read_bytes()[0] ^ 1]) + index.read_bytes()[1:])
    result = CliRunner().invoke(main, ["snapshot", "verify", str(root)])
    assert result.exit_code == 1
    assert with_room[0].path in result.output


def test_small_files_cost_a_request_each(s3: S3Server, running: tuple[Path, int]) -> None:
    source, _ = running
    captured(source, f"s3://{BUCKET}/asked", "one", "full")
    root = place("asked/prod/one")
    manifest = open_snapshot(root).manifest
    files, parts = list(manifest.files()), len(manifest.brokers)
    empty = sum(1 for file in files if file.size_bytes == 0)
    assert max(file.size_bytes for file in files) < FIRST_READ_BYTES
    with counted() as asked:
        verified(root)
    # Of a file that is empty there is nothing to get: the store is asked how large it is. The manifest is looked for,
    # and each broker has a part of it.
    assert asked["HeadObject"] <= empty + 3
    assert asked["GetObject"] <= len(files) + parts + 4
    with counted() as asked:
        assert derived(root).unread() == {}
    assert asked["HeadObject"] < asked["GetObject"] / 5
