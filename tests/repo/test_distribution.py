"""What is installed: one name, the same modules as the checkout, from the checkout and from a source archive alike."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def built(source: Path, target: str, into: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=300)
    (path,) = into.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


def content(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


def test_a_wheel_brings_one_name(wheel: Path) -> None:
    assert {name.split("/")[0].partition("-")[0] for name in content(wheel)} == {"tidegauge"}


def test_a_wheel_says_that_it_has_types(wheel: Path) -> None:
    assert "tidegauge/py.typed" in content(wheel)


def test_a_wheel_has_every_module_but_the_tests(wheel: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    rooms = {link.name for link in (ROOT / "tidegauge").iterdir() if link.is_symlink()}
    wanted = {
        name if name.startswith("tidegauge/") else f"tidegauge/{name}"
        for name in tracked.split()
        if name.split("/")[0] in {*rooms, "tidegauge"} and not name.endswith("/proof.py")
    }
    shipped = {name for name in content(wheel) if name.endswith(".py") and "/shipped/" not in name}
    assert shipped == wanted


@pytest.mark.slow
def test_a_wheel_of_the_source_archive_is_the_same(wheel: Path, tmp_path: Path) -> None:
    archive = built(ROOT, "sdist", tmp_path / "archive")
    with tarfile.open(archive) as files:  # Our own, so nothing in it is to be kept out; 3.11.2 knows no filter.
        files.extractall(tmp_path / "source")  # noqa: S202
    (source,) = (tmp_path / "source").iterdir()
    again = content(built(source, "wheel", tmp_path / "wheel"))
    recorded = [name for name in again if name.endswith("/RECORD")]
    assert {n: c for n, c in again.items() if n not in recorded} == {
        n: c for n, c in content(wheel).items() if n not in recorded
    }


def test_it_runs_where_there_is_no_checkout(wheel: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import tidegauge.cli.main as main;"
        "from tidegauge.expectations.registry import CATALOGUE; print(main.__file__, len(CATALOGUE) > 100)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(tmp_path / "site")],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert done.stdout == f"{tmp_path / 'site' / 'tidegauge' / 'cli' / 'main.py'} True\n"


def test_nobody_elses_modules_are_taken_for_ours(tmp_path: Path) -> None:
    """Whoever runs it may have a `snapshots` or a `sql` of their own on Python's path."""
    rooms = [link.name for link in (ROOT / "tidegauge").iterdir() if link.is_symlink()]
    for name in rooms:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('somebody else's')")
    done = subprocess.run(
        [sys.executable, "-m", "tidegauge", "snapshot", "verify", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"},
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr.count("tidegauge: ")) == (2, 1)
    assert "somebody" not in done.stderr + done.stdout
