"""The entry point of the image as a user whom passwd does not know (OpenShift chooses one): Spark and Postgres run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.helm.chart import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres, pytest.mark.kubernetes]

ENTRY_POINT = ROOT / "helm" / "image" / "entrypoint.sh"
NOBODY_KNOWS = ("unshare", "--user", "--map-user=50000", "--map-group=0")


@pytest.fixture(autouse=True)
def wrapper() -> None:
    there = [path for place in ("/usr/lib", "/usr/lib64") for path in Path(place).glob("**/libnss_wrapper.so")]
    assert there, "libnss_wrapper is missing, which the image brings. On Debian and Ubuntu: apt install libnss-wrapper"
    assert shutil.which("unshare"), "unshare is missing: install util-linux"


def run(*command: object, home: str, into: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {"PATH": path, "LANG": "C.UTF-8", "HOME": home, "TIDEGAUGE_HOME": str(into / "home")}
    if java := os.environ.get("JAVA_HOME"):
        environ["JAVA_HOME"] = java
    return subprocess.run(
        [*NOBODY_KNOWS, "/bin/bash", ENTRY_POINT, *map(str, command)], cwd=into, env=environ, text=True,
        capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("home", ["/", "/nowhere"])
def test_such_a_user_has_a_name_and_a_home(home: str, tmp_path: Path) -> None:
    program = "import os, pwd; found = pwd.getpwuid(os.getuid()); print(found.pw_name, found.pw_dir, os.getgid())"
    done = run("python", "-c", program, home=home, into=tmp_path)
    assert done.stdout.split() == ["tidegauge", "/tmp", "0"], done.stderr


def test_spark_and_postgres_run_for_such_a_user(golden: Golden, tmp_path: Path) -> None:
    snapshot = shutil.copytree(golden("unclean-before"), tmp_path / "snapshot")
    done = run("tidegauge", "audit", snapshot, "--out", "out", "--master", "local[1]", home="/", into=tmp_path)
    assert done.returncode == 1, done.stderr
    assert len(json.loads((tmp_path / "out" / "report.json").read_text())["losses"]) == 3


def test_without_it_they_do_not(golden: Golden, tmp_path: Path) -> None:
    done = subprocess.run(
        [*NOBODY_KNOWS, Path(sys.executable).with_name("tidegauge"), "audit", golden("unclean-before"), "--out", "out"],
        cwd=tmp_path, env={"PATH": os.environ["PATH"], "HOME": "/", "TIDEGAUGE_HOME": str(tmp_path / "home")},
        text=True, capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 3
    assert "50000" in done.stderr
