"""What a snapshot claims of its cluster and of the past, against what the store knows, by the commands as they are."""

import json
from pathlib import Path

import pytest

from tests.security.command import tidegauge
from tests.spark_jobs.small_cluster import small_world, taken, written

pytestmark = pytest.mark.slow

OTHER = "M7aYRSmfQ_WqaDxHkB0bYw"


def with_cluster_id(directory: Path, cluster_id: str) -> Path:
    """The same disks as those of another cluster: what somebody does who has a copy of ours and a text editor."""
    for path in directory.glob("broker-*/meta.properties"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("cluster.id=")]
        path.write_text("\n".join([*lines, *([f"cluster.id={cluster_id}"] if cluster_id else [])]) + "\n")
    return taken(directory)


def test_a_snapshot_of_another_cluster_is_refused_the_others_are_published_and_somebody_settles_it(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    sound, later = (taken(written(tmp_path / name, small_world())) for name in ("sound", "later"))
    forged = with_cluster_id(written(tmp_path / "forged", small_world()), OTHER)
    nameless = with_cluster_id(written(tmp_path / "nameless", small_world()), "")
    first = tidegauge("audit", sound, "--out", tmp_path / "one", home=home)
    assert first.returncode in (0, 1), first.stderr

    done = tidegauge("audit", forged, nameless, later, "--out", tmp_path / "two", home=home)
    assert done.returncode == 2, done.stderr
    assert "1 of 3 snapshots could not be audited, the other 2 were" in done.stderr
    assert f"c/forged is of cluster.id {OTHER}, and c is known here as " in done.stderr
    assert "not published: c/nameless does not say which cluster it is of" in done.stderr
    reports = {path.parent.name: json.loads(path.read_text())["run"] for path in tmp_path.glob("two/**/report.json")}
    assert reports.keys() == {"later", "nameless"}, "what it holds is judged all the same"
    assert {name for name, run in reports.items() if "not_published" in run} == {"nameless"}

    names = tidegauge("store", "names", home=home).stdout
    assert f"Refused: c/forged at {forged} is of {OTHER}" in names
    assert tidegauge("store", "settle", "c", OTHER, "--by", "sre", home=home).returncode == 2
    settled = tidegauge("store", "settle", "c", OTHER, "--rebuilt", "--by", "sre", home=home)
    assert settled.returncode == 0, settled.stderr
    assert (
        settled.stdout
        == f"c stands for {OTHER} from now on. Open contradictions settled: 1. Audit its snapshots again.\n"
    )
    assert "Refused" not in tidegauge("store", "names", home=home).stdout
    again = tidegauge("audit", forged, "--out", tmp_path / "three", home=home)
    assert again.returncode in (0, 1), again.stderr


def test_one_cluster_under_two_names_is_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ours, copy = (written(tmp_path / name, small_world()) for name in ("ours", "copy"))
    for directory, cluster in ((ours, "prod"), (copy, "staging")):
        (directory / "TRUTH.json").unlink()  # as of a real cluster: simulated ones share a seed's cluster.id
        assert tidegauge("snapshot", "adopt", directory, "--cluster", cluster, home=home).returncode == 0
    assert tidegauge("audit", ours, "--out", tmp_path / "one", home=home).returncode in (0, 1)
    done = tidegauge("audit", copy, "--out", tmp_path / "two", home=home)
    assert done.returncode in (0, 1), done.stderr
    assert "is of a cluster that is published as prod too" in done.stderr
    assert "The same cluster, by its cluster.id, is published as prod too." in done.stdout
    assert json.loads((tmp_path / "two" / "report.json").read_text())["run"]["same_cluster_as"] == ["prod"]
