"""Kept summaries on Spark: the report of an audit that had most of its rows at hand is that of one that read all."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.jvm]


def tidegauge(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tidegauge", *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def report(out: Path) -> dict[str, Any]:
    """All of it, but when it was made, and how much was at hand."""
    told: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    for name in ("run_id", "started_at", "finished_at"):
        del told["run"][name]
    del told["coverage"]["segments_reused"]
    return told


def reused(out: Path) -> int:
    count: int = json.loads((out / "report.json").read_text(encoding="utf-8"))["coverage"]["segments_reused"]
    return count


def test_an_audit_reads_what_the_one_before_it_did_not(tmp_path: Path) -> None:
    world, kept = tmp_path / "world", str(tmp_path / "kept")
    moments = json.loads(tidegauge("simulate", "--seed", "13", "--faults", "all", "--out", str(world), "--json"))
    first, second, *_ = [moment["snapshot"] for moment in moments["moments"]]
    spark = ("--master", "local[2]", "--store", "none")
    tidegauge("audit", first, *spark, "--summaries", kept, "--out", str(tmp_path / "first"))
    assert reused(tmp_path / "first") == 0
    pair = (second, "--previous", first, *spark)
    tidegauge("audit", *pair, "--summaries", kept, "--out", str(tmp_path / "incremental"))
    tidegauge("audit", *pair, "--summaries", "none", "--out", str(tmp_path / "full"))
    assert reused(tmp_path / "incremental") > 0
    assert reused(tmp_path / "full") == 0
    assert report(tmp_path / "incremental") == report(tmp_path / "full")
