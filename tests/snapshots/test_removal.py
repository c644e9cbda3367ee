"""Directories that go, on real files: however deep they are, and whatever somebody exchanges while they go."""

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegauge.snapshots import removal
from tidegauge.snapshots.removal import removed

DEEP = 5_000


def deep(top: Path, levels: int) -> None:
    """Directories in one another, with a file of 7 bytes in each; far longer than a path may be."""
    top.mkdir()
    at = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at)
        os.write(file, b"7 bytes")
        os.close(file)
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)


@pytest.mark.slow
def test_a_tree_of_5000_levels_goes_with_a_handful_of_descriptors(tmp_path: Path) -> None:
    deep(tmp_path / "snapshot", DEEP)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = len(os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors + 60, limits[1]))
    try:
        assert removed(tmp_path, tmp_path / "snapshot", dry_run=True) == DEEP * 7
        assert removed(tmp_path, tmp_path / "snapshot") == DEEP * 7
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/dev/fd")) == descriptors


def test_links_go_as_links_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "below").mkdir(parents=True)
    (elsewhere / "file").write_text("precious")
    snapshot = tmp_path / "root" / "c" / "s"
    (snapshot / "broker-1").mkdir(parents=True)
    (snapshot / "broker-1" / "to-directory").symlink_to(elsewhere)
    (snapshot / "to-file").symlink_to(elsewhere / "file")
    (snapshot / "circle").symlink_to(snapshot)
    (snapshot / "nowhere").symlink_to("nothing")
    os.mkfifo(snapshot / "pipe")
    (snapshot / "file").write_bytes(bytes(100))
    size = removed(tmp_path / "root", snapshot)
    assert size >= 100
    assert not snapshot.exists()
    assert (elsewhere / "file").read_text() == "precious"
    assert (elsewhere / "below").is_dir()


@pytest.mark.parametrize("link", ["c", "c/s"])
def test_a_link_on_the_way_there_is_refused(tmp_path: Path, link: str) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    (elsewhere / "s").mkdir(parents=True)
    (elsewhere / "s" / "MANIFEST.json").write_text("precious")
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(elsewhere if link == "c" else elsewhere / "s")
    with pytest.raises(NotADirectoryError):
        removed(root, root / "c" / "s", first="MANIFEST.json")
    assert (elsewhere / "s" / "MANIFEST.json").read_text() == "precious"


def test_the_manifest_goes_before_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s").mkdir()
    for name in ("a", "MANIFEST.json", "z"):
        (tmp_path / "s" / name).write_text("x")
    gone: list[str] = []
    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", lambda name, **at: (gone.append(str(name)), unlink(name, **at)))
    removed(tmp_path, tmp_path / "s", first="MANIFEST.json")
    assert gone[0] == "MANIFEST.json"
    assert sorted(gone) == ["MANIFEST.json", "a", "z"]


# --------------------------------------------------------------------------------------------- somebody else is at work


def when(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None], *, call: str = "open") -> None:
    """Somebody acts just before a directory is opened or removed by this name, once."""
    done: list[bool] = []
    real = getattr(os, call)

    def and_act(path: object, *arguments: object, **options: object) -> object:
        if path == name and not done:
            done.append(True)
            act()
        return real(path, *arguments, **options)

    monkeypatch.setattr(removal.os, call, and_act)


def test_a_directory_that_is_exchanged_for_a_link_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    snapshot = tmp_path / "s"
    (snapshot / "inner").mkdir(parents=True)

    def exchange() -> None:
        (snapshot / "inner").rmdir()
        (snapshot / "inner").symlink_to(precious)

    when(monkeypatch, "inner", exchange)
    removed(tmp_path, snapshot)
    assert (precious / "file").exists()
    assert not snapshot.exists()


def test_a_directory_that_is_moved_away_takes_nobody_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever climbs back by `..` would be in a directory outside, and remove what is there by the names of inside."""
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "left").mkdir()
    snapshot = tmp_path / "s"
    (snapshot / "left").mkdir(parents=True)
    (snapshot / "inner").mkdir()

    def move() -> None:
        (snapshot / "inner").rename(outside / "moved")

    when(monkeypatch, os.pardir, move)
    monkeypatch.setattr(removal.os, "scandir", _last_first(os.scandir))
    with pytest.raises(OSError, match="was moved while it was removed"):
        removed(tmp_path, snapshot)
    assert sorted(path.name for path in outside.iterdir()) == ["inner", "left", "moved"]


def _last_first(scandir: Callable[..., object]) -> Callable[..., object]:
    """Entries so that `inner` is entered first: of the directories that are left the last one is taken."""

    class Sorted:
        def __init__(self, at: int) -> None:
            with scandir(at) as listing:  # type: ignore[attr-defined]
                self.entries = sorted(listing, key=lambda entry: entry.name, reverse=True)

        def __enter__(self) -> list[object]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            pass

    return Sorted


def test_what_others_remove_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "s"
    (snapshot / "inner").mkdir(parents=True)
    when(monkeypatch, "inner", (snapshot / "inner").rmdir)
    removed(tmp_path, snapshot)
    assert not snapshot.exists()
