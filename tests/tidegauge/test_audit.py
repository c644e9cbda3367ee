"""Whole audits of real captures: Spark, Great Expectations and Postgres, by the command line as a user runs it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import create_engine, text

from tests.kafka_log.captures import CAPTURES
from tidegauge import store
from tidegauge.audit.evaluate import evaluate
from tidegauge.audit.publication import publish
from tidegauge.derivation.fact_files import read_relation
from tidegauge.relations import RELATIONS
from tidegauge.runs.run import load

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres]

SOUND = [name for name in CAPTURES if name != "unclean-before"]
LOSSES = {
    ("orders", 0): (800, 1500, 700),
    ("payments", 0): (463, 713, 250),
    ("payments", 1): (463, 713, 250),
}
Report = Mapping[str, Any]


def tidegauge(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TIDEGAUGE_HOME": str(home), "TIDEGAUGE_STORE_URL": ""}
    command = [sys.executable, "-c", "from tidegauge.cli.start import run; run()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=900)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def audited(golden, tmp_path_factory: pytest.TempPathFactory, home: Path, store_url: str) -> dict[str, Report]:
    """The report of every capture, all audited in one Spark job."""
    out = tmp_path_factory.mktemp("audited")
    captures = [golden(name) for name in ("unclean-before", *SOUND)]
    done = tidegauge("audit", *map(str, captures), "--out", str(out), "--store", store_url, home=home)
    assert done.returncode == 1, done.stderr
    reports = {}
    for path in sorted(out.glob("*/*/report.json")):
        report = json.loads(path.read_text())
        report["directory"] = path.parent
        reports[report["run"]["snapshot_id"].rsplit("-", 1)[0]] = report
    assert set(reports) == {"unclean-before", *SOUND}
    return reports


def breaches(report: Report, *severities: str) -> set[tuple[str, str, int]]:
    return {
        (b["code"], b["subject"].get("topic", ""), b["subject"].get("partition", -1))
        for b in report["breaches"]
        if b["severity"] in severities
    }


def test_the_losses_of_an_unclean_election_are_exactly_the_records_it_cut_off(audited):
    losses = audited["unclean-before"]["losses"]
    found = {(x["topic"], x["partition"]): (x["start_offset"], x["end_offset"], x["records"]) for x in losses}
    assert found == LOSSES
    for loss in losses:
        assert loss["state"] == "at_risk"
        assert loss["held_by"] == [1]
        assert loss["cause"].startswith("unclean election: record ")
        assert loss["declared_committed"] == loss["records"]


def test_an_unclean_election_breaches_what_it_must_and_nothing_on_other_partitions(audited):
    critical = breaches(audited["unclean-before"], "critical", "warning")
    assert {place[1:] for place in critical} == set(LOSSES)
    for code in ("D06", "K07"):
        assert {place[1:] for place in critical if place[0] == code} == set(LOSSES)


def test_divergence_points_are_where_kafka_will_truncate(audited):
    rows = read_relation(audited["unclean-before"]["directory"] / "facts", "divergences").to_pylist()
    cut = {
        (r["topic"], r["partition"], r["follower_id"]): r["divergence_offset"]
        for r in rows
        if r["divergence_offset"] < r["follower_log_end_offset"]
    }
    assert cut == {(topic, partition, 1): bounds[0] for (topic, partition), bounds in LOSSES.items()}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_capture_has_no_breach_and_no_loss(audited, name):
    assert breaches(audited[name], "critical", "warning", "info") == set()
    assert audited[name]["losses"] == []


@pytest.mark.parametrize("name", ["unclean-before", *SOUND])
def test_what_is_not_known_has_a_reason_and_is_not_green(audited, name):
    for invariant in audited[name]["invariants"]:
        assert invariant["verdict"] in ("holds", "breached", "unknown")
        if invariant["verdict"] == "holds":
            assert invariant["checked"] > 0
            assert invariant["unknown"] == invariant["breached"] == 0
        if invariant["verdict"] == "unknown":
            assert invariant["reasons"]
        assert sum(invariant["reasons"].values()) == invariant["unknown"]


def test_open_transactions_are_found_and_the_one_the_coordinator_does_not_know_is_told_apart(audited):
    facts = audited["hanging-txn"]["directory"] / "facts"
    found = {
        (r["topic"], r["partition"], r["first_offset"], r["transactional_id"], r["hanging"])
        for r in read_relation(facts, "transactions").to_pylist()
        if r["outcome"] == "open"
    }
    assert found == {
        ("__consumer_offsets", 0, 0, "hang-tx", False),
        ("pay", 0, 115, "hang-tx", False),
        ("raw", 0, 84, "ghost-tx", True),
    }
    stable = {
        (r["topic"], r["partition"]): r["last_stable_offset"] for r in read_relation(facts, "partitions").to_pylist()
    }
    assert (stable["pay", 0], stable["raw", 0], stable["__consumer_offsets", 0]) == (115, 84, 0)


def test_a_breach_is_an_argument_that_ends_with_a_command(audited):
    breach = next(
        b for b in audited["unclean-before"]["breaches"] if b["code"] == "D06" and b["subject"]["topic"] == "orders"
    )
    for step in (
        "Broker 1 holds offsets 800..1499 under leader epoch 0.",
        "epoch 1 starts at 800",
        "at least 72 of these 700 records",
        "unclean",
    ):
        assert step in breach["explanation"]
    assert "tidegauge salvage" in breach["next"]
    assert (breach["start_offset"], breach["end_offset"], breach["records"]) == (800, 1500, 700)


@pytest.mark.parametrize("name", ["unclean-before", "healthy"])
def test_the_report_has_the_keys_that_others_build_on(audited, name):
    report = audited[name]
    assert report["schema_version"] == 1
    assert set(report["run"]) == {
        "run_id", "cluster", "snapshot_id", "previous_snapshot_id", "ruleset_version", "started_at", "finished_at",
        "consistency", "source",
    }  # fmt: skip
    assert {"brokers", "replicas", "segments", "segments_reused", "batches", "bytes", "unread"} <= set(
        report["coverage"]
    )
    assert report["coverage"]["brokers"] == 3
    assert report["coverage"]["batches"] > 0
    for invariant in report["invariants"]:
        assert {"code", "name", "severity", "verdict", "checked", "breached", "unknown", "reasons"} <= set(invariant)
    for breach in report["breaches"]:
        assert {
            "breach_id", "code", "name", "severity", "subject", "start_offset", "end_offset", "records", "explanation",
            "evidence", "implied_by", "next",
        } <= set(breach)  # fmt: skip


@pytest.mark.parametrize("relation", RELATIONS)
def test_facts_lie_in_parquet_under_their_names(audited, relation):
    directory = audited["healthy"]["directory"]
    files = sorted((directory / "facts" / relation).glob("*.parquet"))
    assert files
    assert pq.read_schema(files[0]).names == list(RELATIONS[relation].column_names)


def test_data_docs_need_no_network(audited):
    for report in audited.values():
        docs = report["directory"] / "data_docs"
        for page in docs.rglob("*.html"):
            assert 'src="http' not in page.read_text()
            assert "<script" not in page.read_text()
    page = (audited["unclean-before"]["directory"] / "data_docs" / "index.html").read_text()
    assert "NoCommittedTruncation" in page


def test_every_capture_is_one_published_run(audited, store_url):
    with create_engine(store_url).connect() as connection:
        rows = connection.execute(text("SELECT run_id, cluster, snapshot_id FROM tidegauge.v_run")).all()
    told = {(r["run"]["run_id"], r["run"]["cluster"], r["run"]["snapshot_id"]) for r in audited.values()}
    clusters = {cluster for _, cluster, _ in told}
    assert {tuple(row) for row in rows if row.cluster in clusters} == told, "other tests' clusters aside"


@pytest.fixture(scope="module")
def second(
    audited, golden, tmp_path_factory: pytest.TempPathFactory, home: Path, store_url: str
) -> tuple[Path, Report]:
    """A capture audited once more: its run directory and its report."""
    out = tmp_path_factory.mktemp("second")
    done = tidegauge(
        "audit", str(golden("unclean-before")), "--out", str(out), "--store", store_url, "--json", home=home
    )
    assert done.returncode == 1, done.stderr
    return out, json.loads(done.stdout)


def test_a_second_audit_says_the_same_and_publishes_nothing_new(audited, second):
    again, before = second[1], audited["unclean-before"]
    assert again["run"]["run_id"] == before["run"]["run_id"]
    for part in ("invariants", "breaches", "losses"):
        assert again[part] == before[part]


def test_a_step_that_is_tried_again_leaves_nothing_behind(second, store_url):
    run = load(second[0])
    with create_engine(store_url).connect() as connection:
        for _ in range(2):
            evaluate(run, store_url)
            # As when the step ends, and its process with it.
            store.release(json.loads((run.directory / "staged.json").read_text())["run_id"])
            staged = text("SELECT count(*) FROM tidegauge.audit_run WHERE snapshot_id = :id AND status = 'staging'")
            assert connection.execute(staged, {"id": second[1]["run"]["snapshot_id"]}).scalar() == 1
    publish(run, store_url)
    assert json.loads((run.directory / "report.json").read_text())["run"]["run_id"] == second[1]["run"]["run_id"]


def test_exit_codes_follow_fail_on_and_without_a_store_nothing_is_published(golden, tmp_path, home, store_url):
    # `hanging-txn` copied while it ran, but declared to be of one moment: its ghost transaction is then a breach.
    capture = tmp_path / "capture"
    shutil.copytree(golden("hanging-txn"), capture)
    adopted = tidegauge(
        "snapshot", "adopt", str(capture), "--cluster", "ghosts", "--consistency", "quiesced", "--id", "one", home=home
    )
    assert adopted.returncode == 0, adopted.stderr
    verified = tidegauge("snapshot", "verify", str(capture), home=home)
    assert verified.returncode == 0, verified.stdout
    out = tmp_path / "out"
    done = tidegauge(
        "audit", str(capture), "--out", str(out), "--store", "none", "--fail-on", "never", "--json", home=home
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["run"]["cluster"], report["run"]["snapshot_id"], report["run"]["consistency"]) == (
        "ghosts",
        "one",
        "quiesced",
    )
    assert breaches(report, "critical", "warning") == {("F09", "raw", 0)}
    with create_engine(store_url).connect() as connection:
        assert not connection.execute(text("SELECT 1 FROM tidegauge.v_run WHERE cluster = 'ghosts'")).all()


def test_a_store_that_is_away_is_said_at_once_and_leaves_nothing(golden, tmp_path, home):
    away = "postgresql+psycopg2://auditor:secret@127.0.0.1:1/tidegauge"
    done = tidegauge("audit", str(golden("unclean-before")), "--out", str(tmp_path), "--store", away, home=home)
    assert done.returncode == 3
    assert "127.0.0.1:1" in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "report.json").exists()
