"""The image for brokers' pods, which has `tidegauge-capture`: its Dockerfile's steps, one by one, in a clean directory.

What the package captures is what `tidegauge capture` does, byte by byte: kernels are compiled on one side only.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.helm.dockerfile import Image, build

ROOT = Path(__file__).parents[2]
MOST_MB = 150
"""Of all that it adds to a Python's image."""
MOST_BESIDE_NUMPY_MB = 60
CLUSTER, SNAPSHOT = "lives", "s1"
MODES = {
    "full": (),
    "headers": ("--mode", "headers"),
    "hashed": ("--mode", "headers", "--hash-topics", "--hash-key"),
}
HEAVY = {"numba", "llvmlite", "pyarrow", "pandas", "scipy", "pyspark", "great_expectations", "sqlalchemy", "psycopg2"}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build(ROOT, "helm/capture_image/Dockerfile", tmp_path_factory.mktemp("capture") / "root", {})


def sizes(image: Image) -> dict[str, int]:
    """Of each entry of its site-packages."""
    (packages,) = (image.root / "opt" / "venv").glob("lib/python*/site-packages")
    return {
        entry.name: sum(p.lstat().st_size for p in (entry.rglob("*") if entry.is_dir() else [entry]) if p.is_file())
        for entry in packages.iterdir()
    }


@pytest.mark.slow
def test_it_is_small_and_has_nothing_that_builds(image: Image) -> None:
    added = [path for path in (image.root / "opt").rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in added) < MOST_MB * 1e6
    beside = {name: size for name, size in sizes(image).items() if not name.startswith("numpy")}
    assert sum(beside.values()) < MOST_BESIDE_NUMPY_MB * 1e6
    assert not beside.keys() & HEAVY
    assert not [path for path in added if path.name in ("pip", "uv", "hatchling", "java")]
    assert image.user == "10001"


def captured(program: list[str], brokers: Path, out: Path, *options: object) -> dict[str, object]:
    """Every file of the snapshot, those of the manifest without when each was read."""
    named = [
        word
        for path in sorted(brokers.glob("broker-*"))
        for word in ("--broker", f"{path.name.removeprefix('broker-')}={log_dirs(path)}")
    ]
    command = [*program, "--cluster", CLUSTER, "--id", SNAPSHOT, "--out", str(out), *named, *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr
    files = {str(path.relative_to(out)): path for path in sorted(out.rglob("*")) if path.is_file()}
    return {name: without_instants(path) if "MANIFEST" in name else path.read_bytes() for name, path in files.items()}


def without_instants(file: Path) -> list[Any]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.suffix == ".jsonl" else [file.read_text()]
    return [json.loads(line, object_hook=_timeless) for line in lines]


def _timeless(told: dict[str, Any]) -> dict[str, Any]:
    of_a_list = str(told.get("path", told.get("name", ""))).endswith(".jsonl")
    return {
        name: value
        for name, value in told.items()
        if not name.startswith("read_") and not (of_a_list and name in ("sha256", "size_bytes"))
    }


def log_dirs(broker: Path) -> str:
    if (broker / "meta.properties").exists():
        return str(broker)
    return ",".join(str(path.parent) for path in sorted(broker.glob("*/meta.properties")))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["format-1-unclean", "one-controller-unclean", "hanging-txn"])
def test_it_captures_as_tidegauge_does(name: str, mode: str, image: Image, golden: Golden, tmp_path: Path) -> None:
    """Byte by byte, what it takes out and what it hashes too; kernels are compiled on one side only."""
    (key := tmp_path / "key").write_bytes(b"0123456789abcdef")
    options = [*MODES[mode], *([key] if mode == "hashed" else [])]
    brokers = golden(name)
    ours = captured([sys.executable, "-m", "tidegauge", "capture"], brokers, tmp_path / "ours", *options)
    alone = captured(image.entry_point, brokers, tmp_path / "alone", *options)
    assert alone.keys() == ours.keys()
    assert [name for name in ours if alone[name] != ours[name]] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cluster", "c", "--out", "out"), "tidegauge: Name the brokers: --broker ID=LOG_DIR[,LOG_DIR]"),
        (("--cluster", "c", "--out", "out", "--broker", "1=/nowhere"), "/nowhere"),
        (("--cluster", "c"), "Missing option '--out'"),
        (("--version",), "tidegauge-capture, version 0.1.0"),
    ],
)
def test_what_it_cannot_do_it_says_in_a_sentence(
    options: tuple[str, ...], said: str, image: Image, golden: Golden, tmp_path: Path
) -> None:
    logs = str(golden("hanging-txn") / "broker-1")
    command = [*image.entry_point, *(each.replace("LOGS", logs) for each in options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (0 if "--version" in options else 2, False), done.stderr
    assert said in done.stderr + done.stdout
