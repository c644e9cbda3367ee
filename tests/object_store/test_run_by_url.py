"""A run directory in a real object store: what is found there is what a directory of this machine holds."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.conftest import Golden
from tests.object_store.s3_server import BUCKET, S3Server
from tidegauge.cli.main import main
from tidegauge.derivation.fact_files import read_relation
from tidegauge.relations import LOSSES, RELATIONS
from tidegauge.runs.failures import Failures
from tidegauge.runs.run import load
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location, location
from tidegauge.snapshots.places import emptied, moved, sizes_in
from tidegauge.snapshots.whole_files import appearing, write_whole

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def told(place: Location) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((place / "report.json").read_text(encoding="utf-8"))
    return {name: value for name, value in report.items() if name != "run"}


def test_an_audit_into_a_store_is_explained_from_there(s3: S3Server, golden: Golden, tmp_path: Path) -> None:
    url, here = f"s3://{BUCKET}/runs/alone", tmp_path / "out"
    for out in (url, here):
        result = run("audit", golden("unclean-before"), "--cluster", "c", "--out", out, "--store", "none")
        assert result.exit_code == 1, result.output
    there = location(url)
    assert told(there) == told(here)
    assert len(told(there)["losses"]) == 3
    for name in (*RELATIONS, LOSSES.name):
        assert read_relation(there / "facts", name).equals(read_relation(here / "facts", name)), name
    assert {name.partition("/")[0] for name in there.sizes_below()} == {path.name for path in here.iterdir()}
    breach = next(b["breach_id"] for b in told(there)["breaches"] if b["code"] == "D06")
    explained = run("explain", breach, "--report", url)
    assert (explained.exit_code, explained.output) == (0, run("explain", breach, "--report", here).output)
    with pytest.raises(SnapshotError, match="is not a run directory"):
        load(there / "nothing")


def test_sparks_tasks_hand_on_through_a_store(s3: S3Server, golden: Golden, tmp_path: Path) -> None:
    url, here = f"s3://{BUCKET}/runs/on-spark", tmp_path / "out"
    asked = ["audit", golden("shares-unclean"), "--previous", golden("shares"), "--cluster", "c", "--store", "none"]
    asked += ["--fail-on", "never"]
    command = [sys.executable, "-m", "tidegauge", *map(str, asked), "--out", url, "--master", "local[2]"]
    on_spark = subprocess.run(command, capture_output=True, text=True)
    assert on_spark.returncode == 0, on_spark.stderr
    without = run(*asked, "--out", here)
    assert without.exit_code == 0, without.output
    there = location(url)
    assert told(there) == told(here)
    for name in (*RELATIONS, LOSSES.name):
        rows, expected = (read_relation(place / "facts", name).to_pylist() for place in (there, here))
        assert sorted(rows, key=repr) == sorted(expected, key=repr), name
    assert not (there / "work").exists()


def test_what_a_killed_audit_left_in_a_store_is_neither_judged_nor_kept(
    s3: S3Server, golden: Golden, tmp_path: Path
) -> None:
    """It leaves facts of other tries, parts that were staged, and neither coverage nor report: nobody cleared up."""
    url, here = f"s3://{BUCKET}/runs/killed", tmp_path / "out"
    asked = ["audit", golden("shares-unclean"), "--previous", golden("shares"), "--cluster", "c", "--store", "none"]
    asked += ["--fail-on", "never"]
    assert run(*asked, "--out", here).exit_code == 0
    there = location(url)
    for relation in ("replicas", "losses", "divergences"):
        for part in (here / "facts" / relation).glob("*.parquet"):
            (there / "facts" / relation / "part-00007-99.parquet").write_bytes(part.read_bytes())
    for half in (
        "work/staged/0badcafe/facts/part-9.parquet",
        "work/summaries/part-00077.parquet",
        "work/known/x.parquet",
    ):
        (there / half).write_bytes(b"half")
    Failures(directory=url + "/failed").take_part("derive", "c/1", "orders-0", ["a.log"], KeyError("x"))
    done = run(*asked, "--out", url)
    assert done.exit_code == 0, done.output
    assert told(there) == told(here)
    for name in (*RELATIONS, LOSSES.name):
        assert read_relation(there / "facts", name).equals(read_relation(here / "facts", name)), name
    found, expected = set(there.sizes_below()), {str(p.relative_to(here)) for p in here.rglob("*") if p.is_file()}
    assert found == expected


def test_what_failed_is_noted_in_a_store(s3: S3Server, golden: Golden, tmp_path: Path) -> None:
    url = f"s3://{BUCKET}/runs/by-steps"
    begun = run("job", "snapshot", golden("unclean-before"), "--cluster", "c", "--store", "none", "--run", url)
    assert begun.exit_code == 0, begun.output
    found = load(location(url))
    assert found.snapshots[0].target == location(url)
    for step in ("snapshot", "derive"):
        Failures(directory=url + "/failed").take_part(step, "c/1", "orders-0", ["a.log"], KeyError("x"))
    assert [failure.step for failure in found.failures.parts()] == ["snapshot", "derive"]
    found.failures.begin("derive")
    assert [failure.step for failure in found.failures.parts()] == ["snapshot"]


def broken_off(path: Location) -> None:
    with appearing(path) as file:
        file.write(b"half")
        raise KeyError("broken off")


def test_an_object_is_there_whole_or_not_at_all(s3: S3Server) -> None:
    folder = location(f"s3://{BUCKET}/whole")
    with pytest.raises(KeyError):
        broken_off(folder / "a.txt")
    assert not folder.exists()
    assert sizes_in(folder, ".txt") == {}
    for number in range(3):
        write_whole(folder / f"{number}.txt", "x" * number)
    with appearing(folder / "below" / "b.txt") as file:
        file.write(b"four")
    assert sizes_in(folder, ".txt") == {"0.txt": 0, "1.txt": 1, "2.txt": 2}
    moved((folder / f"{number}.txt", folder / "below" / f"{number}.txt") for number in range(3))
    assert sizes_in(folder, ".txt") == {}
    assert sizes_in(folder / "below", ".txt") == {"0.txt": 0, "1.txt": 1, "2.txt": 2, "b.txt": 4}
    emptied(folder)
    assert not folder.exists()
