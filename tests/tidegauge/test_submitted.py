"""`tidegauge audit latest … --master submitted` as the main file of a real spark-submit, as the chart has it."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Golden
from tidegauge.spark_jobs import session

MAIN = Path(__file__).parents[2] / "tidegauge" / "__main__.py"


def submitted(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = [part for pair in shlex.split(environ["TIDEGAUGE_SPARK_CONF"]) for part in ("--conf", pair)]
    command = [f"{environ['SPARK_HOME']}/bin/spark-submit", "--master", "local[2]", *settings, str(MAIN), *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, cwd="/")


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.postgres
def test_the_newest_snapshot_is_audited_in_the_session_that_was_submitted(golden: Golden, tmp_path: Path) -> None:
    place = tmp_path / "snapshots" / "demo" / "one"
    shutil.copytree(golden("unclean-before"), place)
    if not (place / "MANIFEST.json").exists():
        from tidegauge.snapshots.adopt import adopt

        adopt(place, cluster="demo")
    cluster = json.loads((place / "MANIFEST.json").read_text())["cluster"]
    environ = {
        **os.environ,
        **session.submit_environment("local[2]"),
        "TIDEGAUGE_HOME": str(tmp_path / "home"),
        "TIDEGAUGE_SNAPSHOTS": str(tmp_path / "snapshots"),
    }
    out = tmp_path / "out"
    arguments = ("audit", "latest", "--cluster", "demo", "--out", str(out), "--master", "submitted", "--store", "none")
    done = submitted(environ, *arguments, "--fail-on", "never")
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads((out / "report.json").read_text())
    assert report["run"]["cluster"] == cluster
    assert len(report["losses"]) == 3
    assert submitted(environ, "audit", "latest", "--cluster", "nobody", *arguments[4:]).returncode == 2
