"""A manifest in parts: one a broker, read when its files are asked for, and what was changed in it since."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.snapshots.brokers import Log, log_dir
from tests.snapshots.one_manifest import in_one_file
from tests.snapshots.test_capture_live import captured
from tests.snapshots.test_manifest import MANIFEST
from tidegauge.runs.run import load, new_run
from tidegauge.snapshots.adopt import adopt, open_snapshot
from tidegauge.snapshots.capture import Capture, finish
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.file_taking import Way
from tidegauge.snapshots.manifest import (
    MANIFEST_NAME,
    FilesOfPart,
    Manifest,
    Mode,
    file_line,
    from_json,
    in_parts,
    part_name,
    to_json,
)
from tidegauge.snapshots.verification import verify

LATER_MS = 1 << 42
PARTS = [part_name(f"broker-{node}") for node in (1, 2)]


def in_parts_at(directory: Path) -> tuple[Manifest, str]:
    """The manifest of `test_manifest`, in parts that lie there, and what MANIFEST.json says."""
    manifest = in_parts(MANIFEST, directory, lambda name, text: (directory / name).write_bytes(text.encode()) and None)
    return manifest, to_json(manifest, directory)


@pytest.fixture
def brokers(tmp_path: Path) -> list[str]:
    for node in (1, 2):
        Log.new(log_dir(tmp_path / f"data-{node}", node=node) / "orders-0").append(node)
    return [f"{node}={tmp_path / f'data-{node}'}" for node in (1, 2)]


def test_a_manifest_in_parts_says_what_it_said_as_one_file(tmp_path: Path) -> None:
    _, text = in_parts_at(tmp_path)
    read = from_json(text, place=tmp_path, where="m")
    assert list(read.files()) == list(MANIFEST.files())
    assert [len(broker.files) for broker in read.brokers] == [2]
    assert json.loads(to_json(read)) == json.loads(to_json(MANIFEST))
    for file in MANIFEST.files():
        assert Path(file.path).name not in text
        assert file_line(file) in (tmp_path / part_name("broker-3")).read_text()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def one_letter(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"t-0", b"t-1"))


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a letter": (one_letter, "was changed since"),
    "its last byte": (cut, "was changed since"),
    "nothing of it": (lambda part: part.write_bytes(b""), "was changed since"),
    "gone": (lambda part: part.unlink(), "cannot be read"),
    "a directory": (lambda part: (part.unlink(), part.mkdir()), "cannot be read"),
    "no text": (lambda part: part.write_bytes(b"\xff"), "cannot be read"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_part_that_was_changed_tells_of_no_file(tmp_path: Path, change: str) -> None:
    _, text = in_parts_at(tmp_path)
    do, says = CHANGES[change]
    do(tmp_path / part_name("broker-3"))
    files = iter(from_json(text, place=tmp_path, where="m").brokers[0].files)
    with pytest.raises(SnapshotError, match=rf"MANIFEST\.broker-3\.jsonl.*{says}"):
        next(files)


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "[]\n",
        '{"path": "../x", "size_bytes": 1}\n',
        '{"path": "x", "size_bytes": NaN}\n',
        "{}\n" * 2,
        "[" * 9999 + "\n",
    ],
)
def test_a_part_that_is_as_its_digest_says_and_says_nonsense_is_refused(tmp_path: Path, lines: str) -> None:
    manifest, _ = in_parts_at(tmp_path)
    files = manifest.brokers[0].files
    assert isinstance(files, FilesOfPart)
    value = json.loads(to_json(manifest, tmp_path))
    (tmp_path / files.part.name).write_text(lines)
    value["brokers"][0]["part"] |= {"size_bytes": len(lines), "sha256": sha256(lines.encode()).hexdigest()}
    with pytest.raises(SnapshotError, match=r"MANIFEST\.broker-3\.jsonl is no part of a manifest"):
        list(from_json(json.dumps(value), place=tmp_path, where="m").files())


@pytest.mark.parametrize("name", ["../MANIFEST.json", "/etc/passwd", "broker-1/x", "", "nul\0", 5, None])
def test_a_part_lies_beside_its_manifest(tmp_path: Path, name: object) -> None:
    value = json.loads(in_parts_at(tmp_path)[1])
    value["brokers"][0]["part"]["name"] = name
    with pytest.raises(SnapshotError, match="is not a manifest that can be used"):
        from_json(json.dumps(value), place=tmp_path, where="m")


def test_a_capture_and_an_adopted_copy_have_a_part_a_broker(tmp_path: Path, brokers: list[str]) -> None:
    captured(tmp_path / "out", *brokers)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [*PARTS, MANIFEST_NAME, "broker-1", "broker-2"]
    assert verify(open_snapshot(tmp_path / "out"), all_digests=True) == ()
    (tmp_path / "out" / MANIFEST_NAME).unlink()
    adopted = adopt(tmp_path / "out", cluster="test")
    assert all(isinstance(broker.files, FilesOfPart) for broker in adopted.manifest.brokers)
    assert verify(open_snapshot(tmp_path / "out"), all_digests=True) == ()


def test_a_manifest_of_the_first_version_is_read_as_ever(tmp_path: Path, brokers: list[str]) -> None:
    captured(tmp_path / "out", *brokers)
    now = open_snapshot(tmp_path / "out").manifest
    files = list(now.files())
    value = in_one_file(tmp_path / "out")
    assert value["schema_version"] == 1
    (tmp_path / "out" / MANIFEST_NAME).write_text(json.dumps(value))
    then = open_snapshot(tmp_path / "out").manifest
    assert list(then.files()) == files
    assert (then.cluster_id, then.left_out) == (now.cluster_id, now.left_out)
    assert verify(open_snapshot(tmp_path / "out"), all_digests=True) == ()


def test_the_part_that_a_share_named_is_the_snapshots(tmp_path: Path, brokers: list[str]) -> None:
    for broker in brokers:
        captured(tmp_path / "out", broker, part=True)
    written = {name: (tmp_path / "out" / name).stat().st_ino for name in PARTS}
    finish(Capture(cluster="test", snapshot_id="one", out=tmp_path / "out", way=Way(mode=Mode.FULL)))
    assert {name: (tmp_path / "out" / name).stat().st_ino for name in PARTS} == written
    assert verify(open_snapshot(tmp_path / "out"), all_digests=True) == ()


def test_shares_are_not_joined_when_a_part_was_changed(tmp_path: Path, brokers: list[str]) -> None:
    for broker in brokers:
        captured(tmp_path / "out", broker, part=True)
    cut(tmp_path / "out" / PARTS[1])
    with pytest.raises(SnapshotError, match=r"MANIFEST\.broker-2\.jsonl is not as MANIFEST\.json says"):
        finish(Capture(cluster="test", snapshot_id="one", out=tmp_path / "out", way=Way(mode=Mode.FULL)))
    assert not (tmp_path / "out" / MANIFEST_NAME).exists()


def test_a_run_names_the_parts_of_its_snapshots_and_no_file_of_theirs(tmp_path: Path, brokers: list[str]) -> None:
    captured(tmp_path / "out", *brokers)
    run = new_run(tmp_path / "run", (str(tmp_path / "out"),), store_url="none", fail_on="never", started_at_ms=LATER_MS)
    text = (run.directory / "run.json").read_text()
    assert all(name in text for name in PARTS)
    assert "orders-0" not in text
    files = list(open_snapshot(tmp_path / "out").manifest.files())
    assert list(load(run.directory).snapshots[0].manifest.files()) == files
    one = tmp_path / "out" / PARTS[0]
    one.write_bytes(one.read_bytes().replace(b"orders-0", b"orders-1"))
    with pytest.raises(SnapshotError, match="was changed since"):
        list(load(run.directory).snapshots[0].manifest.files())


def test_a_run_of_a_plain_copy_keeps_its_files_itself(tmp_path: Path, brokers: list[str]) -> None:
    captured(tmp_path / "out", *brokers)
    for name in (*PARTS, MANIFEST_NAME):
        (tmp_path / "out" / name).unlink()
    run = new_run(tmp_path / "run", (str(tmp_path / "out"),), store_url="none", fail_on="never", started_at_ms=LATER_MS)
    assert load(run.directory).snapshots == run.snapshots
    assert "orders-0" in (run.directory / "run.json").read_text()
