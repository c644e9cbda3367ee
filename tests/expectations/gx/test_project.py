"""An exported project in a stranger's process: the true verdicts or an error, and never a success over nothing."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.console.filling import publish_capture
from tidegauge import store
from tidegauge.embedded.postgres import EmbeddedPostgres
from tidegauge.expectations.registry import CATALOGUE

STRANGER = Path(__file__).with_name("strangers_process.py")
CLUSTER = "it's: {odd}, 100% :name $HOME \\ ü"
RUNS = {"expect_table_row_count_to_be_between", "expect_column_values_to_be_in_set"}

pytestmark = pytest.mark.slow


def stranger(*arguments: str | Path, url: str | None = None) -> subprocess.CompletedProcess[str]:
    """-I: no PYTHON* variable counts, and neither the working directory nor the user's packages are looked into."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDEGAUGE", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-I", str(STRANGER), *map(str, arguments)],
        env=kept | ({"TIDEGAUGE_STORE_URL": url} if url is not None else {}),
        cwd="/", capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


def ran(*arguments: str | Path, url: str | None = None) -> Any:
    done = stranger(*arguments, url=url)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tidegauge.expectations.gx.project import write

    directory = tmp_path_factory.mktemp("project")
    write(directory)
    return directory


@pytest.fixture(scope="module")
def two_clusters(empty_store: str, golden: Golden) -> str:
    """The store's address for who may only read, with a password that must not be written down anywhere."""
    now = datetime.now(UTC)
    publish_capture(empty_store, golden("unclean-before"), cluster=CLUSTER, snapshot_id="bad", captured_at=now)
    publish_capture(empty_store, golden("healthy"), cluster="well", snapshot_id="good", captured_at=now)
    readable = empty_store.replace("postgres@", "postgres:hunter2%2F%24x@")
    return f"{readable}&options=-c%20default_transaction_read_only%3Don"


def breached(url: str, cluster: str) -> dict[str, int]:
    """Code -> breached rows, as the audit published them."""
    with store.connect(url, "be asked") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT code, breached FROM tidegauge.v_invariant_status WHERE cluster = %s", (cluster,))
        return dict(cursor.fetchall())


@pytest.fixture(scope="module")
def outcome(project: Path, two_clusters: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = ran("checkpoint", project, url=two_clusters)
    return found


def test_it_counts_what_the_audit_counted(outcome: Mapping[str, Any], two_clusters: str) -> None:
    bad, well = breached(two_clusters, CLUSTER), breached(two_clusters, "well")
    assert bad.keys() == well.keys() == CATALOGUE.keys()
    assert sum(bad.values()) > 10
    assert {code: n for code, n in outcome["found"].items() if code in CATALOGUE} == {
        code: bad[code] + well[code] for code in CATALOGUE
    }
    assert outcome["found"].keys() == CATALOGUE.keys() | RUNS
    assert outcome["errors"] == []
    assert outcome["success"] is False


def test_the_rows_that_breach_say_which_they_are(outcome: Mapping[str, Any], two_clusters: str) -> None:
    with store.connect(two_clusters, "be asked") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT cluster, subject FROM tidegauge.v_breach WHERE code = 'D06'")
        published = {(cluster, *sorted(subject.items())) for cluster, subject in cursor.fetchall()}
    subject = ("follower_id", "leader_id", "partition", "topic")
    rows = {(row["cluster"], *((name, row[name]) for name in subject)) for row in outcome["rows"]["D06"]}
    assert len(rows) == 3
    assert rows == published


def test_its_data_docs_have_a_page_for_each_validation(outcome: Mapping[str, Any], project: Path) -> None:
    (index,) = outcome["docs"]
    assert index.endswith("gx/uncommitted/data_docs/local_site/index.html")
    pages = {path.stem for path in (project / "gx/uncommitted/data_docs/local_site/expectations").glob("*.html")}
    assert pages == {f"tidegauge_{i.relation}" for i in CATALOGUE.values()} | {"tidegauge_runs"}


def test_no_file_holds_the_password(outcome: Mapping[str, Any], project: Path) -> None:
    holding = [path for path in project.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert holding == []


def test_the_guide_s_own_lines_print_what_is_breached(project: Path, two_clusters: str, tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/great-expectations.md").read_text(encoding="utf-8")
    open_and_run, rows, _ = re.findall(r"^```python\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
    (tmp_path / "gx-project").symlink_to(project)
    done = subprocess.run(
        [sys.executable, "-I", "-c", open_and_run + rows], env=os.environ | {"TIDEGAUGE_STORE_URL": two_clusters},
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    printed = {(words[0], words[-1]) for line in done.stdout.splitlines() if (words := line.split())}
    bad = {(code, str(count)) for code, count in breached(two_clusters, CLUSTER).items() if count}
    assert len(bad) == 5
    assert bad <= printed
    assert "D06 [{'cluster'" in done.stdout


NAMED = {"one that is well": ["well"], "one that is not there": [CLUSTER, "no such cluster"]}


@pytest.fixture(scope="module")
def named(two_clusters: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Any]]:
    """What comes of projects of the clusters that were named."""
    from tidegauge.expectations.gx.project import write

    projects = [tmp_path_factory.mktemp("named") for _ in NAMED]
    for project, clusters in zip(projects, NAMED.values(), strict=True):
        write(project, clusters=clusters)
    return dict(zip(NAMED, ran("checkpoints", *projects, url=two_clusters), strict=True))


@pytest.mark.parametrize(("which", "success"), [("one that is well", True), ("one that is not there", False)])
def test_it_judges_the_clusters_that_were_named(
    named: Mapping[str, Mapping[str, Any]], two_clusters: str, which: str, success: bool
) -> None:
    outcome = named[which]
    assert {code: outcome["found"][code] for code in CATALOGUE} == breached(two_clusters, NAMED[which][0])
    assert outcome["found"]["expect_table_row_count_to_equal"] == 1
    assert outcome["success"] is success


STORES = ("without a run", "of another ruleset", "away")


@pytest.fixture(scope="module")
def of_stores(
    project: Path,
    postgres_server: EmbeddedPostgres,
    worker_id: str,
    golden: Golden,
    tmp_path_factory: pytest.TempPathFactory,
) -> Mapping[str, Mapping[str, Any]]:
    """What the validation of the runs says of stores that no verdict can be had from."""
    empty, old = (postgres_server.fresh_database(f"{name}_{worker_id}") for name in ("without_runs", "old_runs"))
    away = f"postgresql+psycopg2://postgres@/nothing?host={tmp_path_factory.mktemp('away')}"
    for url in (empty, old):
        store.migrate(url)
    publish_capture(old, golden("healthy"), cluster="old", snapshot_id="s", captured_at=datetime.now(UTC))
    with store.connect(old, "age") as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE tidegauge.audit_run SET ruleset_version = ruleset_version || '.1'")
    return dict(zip(STORES, ran("runs_of", project, empty, old, away), strict=True))


def test_a_store_without_a_run_is_no_success(of_stores: Mapping[str, Mapping[str, Any]]) -> None:
    assert of_stores["without a run"] == {
        "success": False,
        "found": {"expect_table_row_count_to_be_between": 0, "expect_column_values_to_be_in_set": None},
        "errors": [],
    }


def test_a_run_of_another_ruleset_is_no_success(of_stores: Mapping[str, Mapping[str, Any]]) -> None:
    outcome = of_stores["of another ruleset"]
    assert outcome["success"] is False
    assert outcome["found"] == {"expect_table_row_count_to_be_between": 1, "expect_column_values_to_be_in_set": 1}


def test_a_store_that_does_not_answer_is_no_success(of_stores: Mapping[str, Mapping[str, Any]]) -> None:
    outcome = of_stores["away"]
    assert outcome["success"] is False
    assert set(outcome["errors"]) == RUNS


def test_without_the_variable_it_does_not_run(project: Path) -> None:
    done = stranger("runs", project)
    assert done.returncode != 0
    assert "MissingConfigVariableError" in done.stderr


def test_a_plain_suite_keeps_its_expectations_and_one_of_the_custom_class_would_lose_them(tmp_path: Path) -> None:
    """Why nobody stores the pipeline's own suites: the library drops what it does not know and goes on."""
    from tidegauge.expectations.gx.suites import plain_suites, suites

    plain, custom = plain_suites()["replicas"], suites()["replicas"]
    for name, suite in (("plain", plain), ("custom", custom)):
        (tmp_path / name).write_text(json.dumps(suite.to_json_dict()))
    done = stranger("suites", tmp_path / "plain", tmp_path / "custom")
    assert done.returncode == 0, done.stderr
    kept, lost = json.loads(done.stdout.splitlines()[-1])
    assert kept == ["unexpected_rows_expectation"] * len(plain.expectations)
    assert lost == []


def test_the_same_catalogue_gives_the_same_files(project: Path, tmp_path: Path) -> None:
    from tidegauge.expectations.gx.project import write

    write(tmp_path)
    for path in (project / "gx").rglob("*"):
        shared = path.relative_to(project)
        if path.is_file() and "uncommitted" not in shared.parts and path.name != ".ge_store_backend_id":
            assert (tmp_path / shared).read_bytes() == path.read_bytes(), shared
