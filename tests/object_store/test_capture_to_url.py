"""Captures into a real object store: what lands there is what lands in a directory, and nothing is half a snapshot."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.conftest import Golden
from tests.derivation.pipeline import derived
from tests.object_store.s3_server import BUCKET, S3Server, reached_by
from tests.snapshots.keys import key_pair
from tidegauge.cli.main import main
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.location import ObjectPath, location
from tidegauge.snapshots.manifest import MANIFEST_NAME, part_name

pytestmark = pytest.mark.slow

JUDGED = ("divergences", "losses", "epoch_spans", "replicas", "partition_changes", "transactions", "producers")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def brokers(golden: Golden, *ids: int) -> list[str]:
    directory = golden("unclean-before")
    return [word for broker in ids for word in ("--broker", f"{broker}={directory / f'broker-{broker}'}")]


def place(name: str) -> ObjectPath:
    found = location(f"s3://{BUCKET}/{name}")
    assert isinstance(found, ObjectPath)
    return found


def captured(golden: Golden, out: str | Path, snapshot_id: str, *more: str, ids: tuple[int, ...] = (1, 2, 3)) -> Any:
    done = run(
        "capture", "--cluster", "prod", *brokers(golden, *ids), "--out", out, "--id", snapshot_id, "--json", *more
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def first(s3: S3Server, golden: Golden) -> ObjectPath:
    """A full capture, made once."""
    root = place("captures/prod/first")
    if not (root / MANIFEST_NAME).exists():
        captured(golden, f"s3://{BUCKET}/captures", "first")
    return root


def test_a_signed_capture_is_verified_there_and_one_that_somebody_changed_is_not(
    s3: S3Server, golden: Golden, tmp_path: Path
) -> None:
    private, public = key_pair(tmp_path, "ours")
    out, root = f"s3://{BUCKET}/signed", place("signed/prod/one")
    for broker in (1, 2, 3):
        captured(golden, out, "one", "--part", "--sign", str(private), ids=(broker,))
    done = run("capture", "--cluster", "prod", "--out", out, "--id", "one", "--finish", "--sign", private)
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in root.iterdir()) == [
        *(part_name(f"broker-{broker}") for broker in (1, 2, 3)), MANIFEST_NAME, f"{MANIFEST_NAME}.sig",
        "broker-1", "broker-2", "broker-3",
    ]  # fmt: skip
    command = ("snapshot", "verify", str(root), "--verify-key", public)
    assert run(*command).exit_code == 0, run(*command).output
    log = root / next(f.path for f in open_snapshot(root).manifest.files() if f.path.endswith(".log") and f.size_bytes)
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(bytes(data))
    assert run(*command).exit_code == 1
    step = run("job", "snapshot", str(root), "--run", tmp_path / "run", "--verify-key", public)
    assert (step.exit_code, "is not as it was signed" in step.output) == (2, True)
    (root / MANIFEST_NAME).write_bytes((root / MANIFEST_NAME).read_bytes() + b"\n")
    assert run(*command).exit_code == 2


def verified(root: ObjectPath) -> None:
    result = run("snapshot", "verify", str(root))
    assert result.exit_code == 0, result.output


def test_a_capture_lands_as_it_would_in_a_directory(first, golden, tmp_path):
    captured(golden, tmp_path, "first")
    here = tmp_path / "prod" / "first"
    files = {path.relative_to(here).as_posix(): path.stat().st_size for path in here.rglob("*") if path.is_file()}
    behind = {file.path: file.zeros_behind for file in open_snapshot(first).manifest.files()}
    there = {name: size + behind.get(name, 0) for name, size in first.sizes_below().items()}
    for name in (MANIFEST_NAME, *(part_name(f"broker-{broker}") for broker in (1, 2, 3))):
        assert abs(there.pop(name) - files.pop(name)) < 0.01 * files_total(files)
    assert there == files
    verified(first)
    ours, theirs = derived(first), derived(here)
    assert len(ours.all("losses")) == 3
    for relation in JUDGED:
        assert [stripped(row) for row in ours.all(relation)] == [stripped(row) for row in theirs.all(relation)]
    assert ours.unread() == theirs.unread()


def files_total(files: dict[str, int]) -> int:
    return sum(files.values())


def stripped(row: Any) -> Any:
    """Without the instants of the copy, and which of two logs was read first: copies of one millisecond overlap."""
    return {
        name: value
        for name, value in row.items()
        if not name.endswith("_at_ms") and name != "follower_copied_after_leader"
    }


def test_a_snapshot_that_is_there_is_not_written_over(first, golden):
    before = (first / MANIFEST_NAME).read_bytes()
    again = run(
        "capture", "--cluster", "prod", *brokers(golden, 1), "--out", f"s3://{BUCKET}/captures", "--id", "first"
    )
    assert again.exit_code == 2
    assert again.output.splitlines()[-1].startswith("tidegauge: ")
    assert (first / MANIFEST_NAME).read_bytes() == before


def test_sealed_segments_are_copied_inside_the_store(first, golden):
    told = captured(golden, f"s3://{BUCKET}/captures", "second")
    assert told["previous"] == "first"
    assert told["linked_files"] > 0
    assert told["bytes_read"] + told["linked_bytes"] <= told["source_bytes"]
    verified(place("captures/prod/second"))


def test_headers_hold_no_record_and_verify(s3, golden):
    told = captured(golden, f"s3://{BUCKET}/headers", "one", "--mode", "headers", ids=(1, 2))
    root = place("headers/prod/one")
    assert [name for name in root.sizes_below() if "/orders-0/" in name and name.endswith(".log")] == []
    assert told["bytes"] < told["source_bytes"]
    verified(root)


def test_brokers_write_their_shares_and_one_joins_them(s3, golden):
    out = f"s3://{BUCKET}/shares"
    common = ("--cluster", "prod", "--out", out, "--id", "one")
    for broker in (1, 2):
        assert run("capture", *common, "--part", *brokers(golden, broker)).exit_code == 0
        assert not (place("shares/prod/one") / MANIFEST_NAME).exists()
    done = run("capture", *common, "--finish", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["brokers"] == [1, 2]
    verified(place("shares/prod/one"))


def test_a_capture_that_was_killed_is_gone_on_with(s3, golden):
    root = place("killed/prod/one")
    words = ["capture", "--cluster", "prod", *brokers(golden, 1), "--out", f"s3://{BUCKET}/killed", "--id", "one"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from tidegauge.cli.start import run; run()", *words, "--max-mb-per-s", "0.2"],
        env=reached_by(s3), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        while len(found := root.sizes_below()) < 20 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert len(found) >= 20
    assert MANIFEST_NAME not in root.sizes_below()
    assert run("audit", str(root), "--out", "unused").exit_code == 2
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["bytes_read"] < json.loads(done.stdout)["source_bytes"]
    verified(root)


@pytest.mark.parametrize(
    ("environ", "out", "code"),
    [
        ({}, "s3://no-such-bucket/x", (2, 3)),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, f"s3://{BUCKET}/denied", (3,)),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, f"s3://{BUCKET}/away", (3,)),
    ],
)
def test_a_place_that_cannot_be_written_is_said_in_one_paragraph(s3, golden, monkeypatch, environ, out, code):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    result = run("capture", "--cluster", "prod", *brokers(golden, 1), "--out", out, "--id", "one")
    assert result.exit_code in code, result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("tidegauge: ")]
    assert out in line
    assert "Traceback" not in result.output
