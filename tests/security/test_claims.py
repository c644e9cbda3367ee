"""What a snapshot claims of its cluster and of the past, against what the store knows, by the commands as they are."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.derivation.small_cluster import small_world, taken, written
from tests.security.command import tidegauge

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres]

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


def dated_ahead(home: Path) -> list[str]:
    """What the store of this home tells of snapshots of the future."""
    lines = tidegauge("store", "names", home=home).stdout.splitlines()
    return [line for line in lines if line.startswith("Dated in the future")]


def test_a_snapshot_of_the_future_is_told_to_who_reads_no_standard_error(tmp_path: Path) -> None:
    """Where it is audited by its name, and where `latest` takes another one instead and the audit ends well."""
    home, root = tmp_path / "home", tmp_path / "snapshots"
    sound = taken(written(root / "c" / "sound", small_world()))
    ahead_ms = int((datetime.now(UTC) + timedelta(days=1)).timestamp() * 1000)
    forged = taken(written(root / "c" / "forged", small_world()), at_ms=ahead_ms)

    refused = tidegauge("audit", forged, "--out", tmp_path / "one", home=home)
    assert refused.returncode == 2, refused.stderr
    (told,) = dated_ahead(home)
    assert told.startswith(f"Dated in the future: c/forged at {forged} says ")
    settled = tidegauge("store", "settle", "c", "--dated-ahead", "--by", "sre", home=home)
    assert settled.stdout == "c: open alerts of snapshots of the future settled: 1.\n", settled.stderr
    assert dated_ahead(home) == []

    latest = ("audit", "latest", "--cluster", "c", "--snapshots", root, "--out", tmp_path / "two")
    done = tidegauge(*latest, home=home)
    assert done.returncode in (0, 1), done.stderr
    assert (tmp_path / "two" / "report.json").exists(), f"of {sound}"
    assert dated_ahead(home) != []
    assert tidegauge("store", "settle", "c", OTHER, "--dated-ahead", "--by", "sre", home=home).returncode == 2
    assert tidegauge("store", "settle", "c", "--not-ours", "--by", "sre", home=home).returncode == 2


def test_a_store_that_cannot_be_reached_changes_nothing_about_the_refusal(tmp_path: Path) -> None:
    forged = taken(written(tmp_path / "c", small_world()), at_ms=253_402_300_799_999)
    away = "postgresql+psycopg2://nobody:secret@127.0.0.1:1/none"
    done = tidegauge("audit", forged, "--out", tmp_path / "out", "--store", away, home=tmp_path / "home")
    assert done.returncode == 2, done.stderr
    assert "No alert tells of what is dated in the future, since the store could not keep it: " in done.stderr
    assert "secret" not in done.stderr
    assert "c/c says that it was captured at 9999-12-31 23:59:59 UTC" in done.stderr.replace("\n", " ")
