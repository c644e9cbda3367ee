"""Data docs on disk: found by their reports, and nothing else is served."""

import json
import os
from pathlib import Path

import pytest

from tidegauge.console.docs import Docs
from tidegauge.snapshots.local_path import LARGEST_FILE_READ_WHOLE, LARGEST_TEXT_READ_WHOLE

RUN = {"run_id": "r1", "cluster": "c", "snapshot_id": "s", "finished_at": "2026-11-21T03:00:00.000Z"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "manual__1" / "c" / "s"
    (run / "data_docs").mkdir(parents=True)
    (run / "data_docs" / "index.html").write_text("pages")
    (run / "data_docs" / "secret.json").write_text("no page")
    (run / "data_docs" / "link.html").symlink_to(run / "report.json")
    (run / "report.json").write_text(json.dumps({"run": RUN}))
    (tmp_path / "runs" / "broken" / "data_docs").mkdir(parents=True)
    (tmp_path / "runs" / "broken" / "data_docs" / "index.html").write_text("")
    (tmp_path / "runs" / "broken" / "report.json").write_text("{")
    return tmp_path / "runs"


def test_runs_are_found_by_their_reports(root: Path) -> None:
    docs = Docs([root, root / "is not there"])
    assert list(docs.runs()) == ["r1"]
    assert (docs.runs()["r1"].cluster, docs.runs()["r1"].date) == ("c", "2026-11-21")
    found = docs.file("r1", "c", "2026-11-21", "index.html")
    assert found is not None
    assert found == (b"pages", "text/html; charset=utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "../report.json",
        "..",
        ".",
        "",
        "secret.json",
        "link.html",
        "/etc/passwd",
        "index.html/",
        "x\0.html",
        "nope.html",
    ],
)
def test_only_a_run_s_own_pages_are_served(root: Path, name: str) -> None:
    assert Docs([root]).file("r1", "c", "2026-11-21", name) is None


def test_the_address_names_cluster_and_date(root: Path) -> None:
    assert Docs([root]).file("r1", "other", "2026-11-21", "index.html") is None
    assert Docs([root]).file("r1", "c", "2026-11-22", "index.html") is None


def test_a_run_directory_s_own_are_found_by_its_name(root: Path) -> None:
    docs = Docs([root])
    assert [d.cluster for d in docs.below("manual__1")] == [d.cluster for d in docs.runs().values()]
    assert docs.below("manual__2") == docs.below("data_docs") == ()


def test_of_two_audits_that_came_to_one_run_each_leads_to_its_own(root: Path) -> None:
    for name, finished_at in (
        ("manual__2", "2026-11-22T03:00:00.000Z"),
        ("adhoc-manual__2", "2026-11-21T05:00:00.000Z"),
    ):
        pages = root / name / "c" / "data_docs"
        pages.mkdir(parents=True)
        (pages / "index.html").write_text(name)
        (pages.parent / "report.json").write_text(json.dumps({"run": RUN | {"finished_at": finished_at}}))
    docs = Docs([root])
    assert list(docs.runs()) == ["r1"]
    for name in ("manual__1", "manual__2", "adhoc-manual__2"):
        (found,) = docs.below(name)
        assert docs.file(found.run_id, found.cluster, found.date, "index.html") is not None
    newest = docs.file("r1", "c", "2026-11-22", "index.html")
    assert newest is not None
    assert newest[0] == b"manual__2"


@pytest.mark.parametrize("laid", ["a pipe", "a link", "a directory", "too large", "too deep", "half a character"])
def test_a_report_that_is_none_is_passed_over(root: Path, laid: str) -> None:
    run = root / "laid"
    (run / "data_docs").mkdir(parents=True)
    (run / "data_docs" / "index.html").touch()
    report = run / "report.json"
    if laid == "a pipe":
        os.mkfifo(report)
    elif laid == "a link":
        (root / "secret").write_text(json.dumps({"run": RUN | {"run_id": "r2"}}))
        report.symlink_to(root / "secret")
    elif laid == "a directory":
        report.mkdir()
    elif laid == "too large":
        with report.open("wb") as file:
            file.truncate(LARGEST_TEXT_READ_WHOLE + 1)
    elif laid == "too deep":
        report.write_text("[" * 200_000)
    else:
        report.write_text(json.dumps({"run": RUN | {"run_id": "r2", "cluster": "\ud800"}}))
    assert list(Docs([root]).runs()) == ["r1"]


@pytest.mark.parametrize("laid", ["a pipe", "a link", "too large"])
def test_a_page_that_is_none_is_not_served(root: Path, laid: str) -> None:
    page = root / "manual__1" / "c" / "s" / "data_docs" / "laid.html"
    if laid == "a pipe":
        os.mkfifo(page)
    elif laid == "a link":
        page.symlink_to(page.with_name("index.html"))
    else:
        with page.open("wb") as file:
            file.truncate(LARGEST_FILE_READ_WHOLE + 1)
    assert Docs([root]).file("r1", "c", "2026-11-21", "laid.html") is None


def test_pages_that_a_link_leads_to_are_not_served(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "index.html").write_text("of another")
    (root / "laid").mkdir()
    (root / "laid" / "report.json").write_text(json.dumps({"run": RUN | {"run_id": "r2"}}))
    (root / "laid" / "data_docs").symlink_to(tmp_path / "elsewhere")
    docs = Docs([root])
    assert list(docs.runs()) == ["r1"]
    assert docs.file("r2", "c", "2026-11-21", "index.html") is None


def test_a_root_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "named").symlink_to(root)
    assert list(Docs([tmp_path / "named"]).runs()) == ["r1"]
