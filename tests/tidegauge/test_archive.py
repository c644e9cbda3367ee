"""Captures are unpacked whole, sparse and once."""

import tarfile
from pathlib import Path

import pytest

from tidegauge.embedded.archive import unpack


@pytest.fixture
def archive(tmp_path):
    source = tmp_path / "capture"
    (source / "broker-1").mkdir(parents=True)
    (source / "broker-1" / "meta.properties").write_text("version=1\n")
    with tarfile.open(tmp_path / "capture.tar.gz", "w:gz") as tar:
        tar.add(source, "capture")
    return tmp_path / "capture.tar.gz"


def test_an_archive_of_one_directory_is_that_directorys_contents(archive, tmp_path):
    directory = unpack(archive, tmp_path / "out" / "it")
    assert (directory / "broker-1" / "meta.properties").read_text() == "version=1\n"
    assert [path.name for path in directory.parent.iterdir()] == ["it"]


def test_what_is_there_is_taken_as_it_is(archive, tmp_path):
    directory = unpack(archive, tmp_path / "it")
    (directory / "mark").touch()
    assert (unpack(archive, directory) / "mark").exists()


def test_half_an_archive_leaves_nothing(archive, tmp_path):
    archive.write_bytes(archive.read_bytes()[:-60])
    with pytest.raises((EOFError, tarfile.TarError, OSError)):
        unpack(archive, tmp_path / "out" / "it")
    assert list((tmp_path / "out").iterdir()) == []


def test_preallocated_files_stay_sparse(golden):
    files = [path.stat() for path in golden("unclean-before").rglob("*.index")]
    assert sum(stat.st_size for stat in files) > 10_000_000
    assert sum(stat.st_blocks * 512 for stat in files) < 1_000_000


def test_a_capture_holds_three_brokers(golden):
    assert {path.name for path in golden("healthy").glob("broker-*")} == {"broker-1", "broker-2", "broker-3"}


def test_nobody_else_can_read_what_was_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("records")
    (tmp_path / "a" / "b" / "file").chmod(0o666)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "a", "a")
    found = unpack(tmp_path / "a.tar.gz", tmp_path / "out")
    assert {p.stat().st_mode & 0o007 for p in (found, *found.rglob("*"))} == {0}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a/../../b", tarfile.REGTYPE), ("/b", tarfile.REGTYPE), ("a/b", tarfile.SYMTYPE), ("a/b", tarfile.LNKTYPE),
     ("a/b", tarfile.FIFOTYPE), ("a/b", tarfile.CHRTYPE)],
)  # fmt: skip
def test_nothing_but_files_and_directories_below_its_root_is_unpacked(tmp_path: Path, name: str, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(tarfile.TarError, match="no file or directory below"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "out" / "it")
    assert [path.name for path in tmp_path.rglob("*")] == ["a.tar.gz", "out"]
