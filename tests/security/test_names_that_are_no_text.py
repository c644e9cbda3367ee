"""File names, and words in files, that no JSON in UTF-8 can hold: they are left out by name, and nothing else is."""

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.derivation.small_cluster import small_world, taken, written
from tidegauge.cli.main import main
from tidegauge.endings import progress
from tidegauge.runs.run import Run, load, new_run
from tidegauge.runs.survivors import failed_error
from tidegauge.snapshots.adopt import adopt, open_snapshot, survey
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import LARGEST_FILE_BYTES, MANIFEST_NAME, NO_TEXT, LeftOut

REPLICA = "broker-1/orders-0"
NAMES = {b"\xff.log": "\\xff.log", b"caf\xe9": "caf\\xe9", b"\xed\xa0\x80": "\\xed\\xa0\\x80"}
"""A name as the system has it -> as it is told."""


@pytest.fixture
def sound(tmp_path: Path) -> str:
    return str(taken(written(tmp_path / "sound", small_world())))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return written(tmp_path / "copy", small_world())


def a_run(directory: Path, *snapshots: str) -> Run:
    return new_run(directory, snapshots, store_url="none", fail_on="never", started_at_ms=0)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def with_names(copy: Path) -> set[LeftOut]:
    """Files, a partition's directory and a broker's own of such names; returns what is to be told of them."""
    for name in NAMES:
        Path(os.fsdecode(os.path.join(os.fsencode(copy), REPLICA.encode(), name))).write_bytes(b"x")
        below = Path(os.fsdecode(os.path.join(os.fsencode(copy), b"broker-1", name + b"-0")))
        below.mkdir()
        (below / f"{0:020d}.log").write_bytes(b"x")
    told = {LeftOut(path=f"{REPLICA}/{name}", reason=NO_TEXT) for name in NAMES.values()}
    return told | {LeftOut(path=f"broker-1/{name}-0", reason=NO_TEXT) for name in NAMES.values()}


def test_a_plain_copy_is_surveyed_without_them_and_they_are_named(copy: Path) -> None:
    before = {file.path for file in survey(copy).files()}
    told = with_names(copy)
    manifest = survey(copy)
    assert {file.path for file in manifest.files()} == before
    assert told <= set(manifest.left_out)


def test_an_adopted_copy_can_be_opened_and_verified(copy: Path) -> None:
    told = with_names(copy)
    assert run("snapshot", "adopt", copy, "--cluster", "c").exit_code == 0
    assert told <= set(open_snapshot(copy).manifest.left_out)
    assert run("snapshot", "verify", copy).exit_code == 0


def test_a_run_is_read_again_by_the_next_step(copy: Path, sound: str, tmp_path: Path) -> None:
    told = with_names(copy)
    a_run(tmp_path / "run", str(copy), sound)
    first, second = load(tmp_path / "run").snapshots
    assert told <= set(first.manifest.left_out)
    assert str(second.root) == sound


def test_a_capture_leaves_them_out_by_name_and_can_be_opened(copy: Path, tmp_path: Path) -> None:
    for name in NAMES:
        at = os.path.join(os.fsencode(copy), REPLICA.encode(), name)
        Path(os.fsdecode(at)).write_bytes(b"x")
        below = Path(os.fsdecode(os.path.join(os.fsencode(copy), b"broker-1", name + b"-0")))
        below.mkdir()
        (below / f"{0:020d}.log").write_bytes(b"x")
    out = tmp_path / "captures"
    done = run(
        "capture", "--cluster", "c", "--broker", f"1={copy / 'broker-1'}", "--out", out, "--id", "one",
        "--consistency", "quiesced",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    left = {entry.path: entry.reason for entry in open_snapshot(out / "c" / "one").manifest.left_out}
    for name in NAMES.values():
        assert left[f"{REPLICA}/{name}"] == NO_TEXT
        assert left[f"broker-1/{name}-0/{0:020d}.log"] == NO_TEXT


def said(copy: Path, **words: str) -> None:
    """Lets every meta.properties of a copy say so."""
    for path in copy.glob("broker-*/meta.properties"):
        lines = [
            line for line in path.read_text().splitlines() if line.partition("=")[0].replace(".", "_") not in words
        ]
        path.write_text("\n".join([*lines, *(f"{name.replace('_', '.')}={word}" for name, word in words.items())]))


@pytest.mark.parametrize("words", [{"cluster_id": "a\0b"}, {"directory_id": "a\0b"}], ids=str)
@pytest.mark.parametrize("is_adopted", [False, True])
def test_words_that_cannot_be_kept_are_that_snapshot_s_own_failure(
    copy: Path, sound: str, tmp_path: Path, words: dict[str, str], is_adopted: bool
) -> None:
    if is_adopted:
        taken(copy)
    said(copy, **words)
    if not is_adopted:
        with pytest.raises(SnapshotError, match="cannot be a snapshot"):
            adopt(copy, cluster="c")
        assert not (copy / MANIFEST_NAME).exists()
    a_run(tmp_path / "run", str(copy), sound)
    kept = load(tmp_path / "run")
    assert sound in [str(snapshot.root) for snapshot in kept.snapshots]
    if "cluster_id" in words or not is_adopted:
        assert [str(snapshot.root) for snapshot in kept.snapshots] == [sound]
        assert isinstance(failed_error(kept), SnapshotError)


def test_a_path_that_is_no_text_is_that_snapshot_s_own_failure(sound: str, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    written(odd, small_world())
    a_run(tmp_path / "run", str(odd), sound)
    assert [str(snapshot.root) for snapshot in load(tmp_path / "run").snapshots] == [sound]


def test_a_cluster_s_name_that_is_no_text_is_refused_before_anything_is_written(copy: Path) -> None:
    done = run("snapshot", "adopt", copy, "--cluster", "\udcff")
    assert done.exit_code == 2, done.output
    assert not (copy / MANIFEST_NAME).exists()


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\nb", "a\u202eb", "a\rb", " "])
@pytest.mark.parametrize("option", ["--cluster", "--id"])
def test_a_name_that_steers_a_terminal_is_refused_and_shown(copy: Path, option: str, name: str) -> None:
    given = {"--cluster": "c", "--id": "i"} | {option: name}
    done = run("snapshot", "adopt", copy, *(word for pair in given.items() for word in pair))
    assert done.exit_code == 2, done.output
    assert f"{option} " in done.output
    assert name == " " or name not in done.output
    assert not (copy / MANIFEST_NAME).exists()


def test_a_line_of_progress_is_one_line_whatever_is_named_in_it() -> None:
    @click.command()
    def telling() -> None:
        progress("publish: a\nb\x1b[31m\u202e")

    assert CliRunner().invoke(telling).output == "publish: a\\x0ab\\x1b[31m\\x202e\n"


def test_a_file_larger_than_any_of_kafka_s_is_left_out(copy: Path, sound: str, tmp_path: Path) -> None:
    with (copy / REPLICA / "huge").open("wb") as file:
        file.truncate(LARGEST_FILE_BYTES + 1)
    a_run(tmp_path / "run", str(copy), sound)
    first, _ = load(tmp_path / "run").snapshots
    assert any(
        each.path == f"{REPLICA}/huge" and "larger than any file of Kafka" in each.reason
        for each in first.manifest.left_out
    )
