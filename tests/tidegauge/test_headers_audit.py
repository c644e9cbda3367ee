"""One cluster captured in full, as headers, and with hashed names, audited in one run: the same verdicts each time,
but of what only records tell.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.tidegauge.test_audit import tidegauge
from tidegauge.snapshots.topic_names import TopicNames

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

SECRET = b"a key of more than sixteen bytes"
NAMES = TopicNames(SECRET)
WAYS = {
    "full": ("--mode", "full"),
    "headers": ("--mode", "headers"),
    "hashed": ("--mode", "headers", "--hash-topics", "--hash-key"),
}
Report = Mapping[str, Any]
OF_RECORDS = {"A06", "A10"}
"""Invariants that look into records of this cluster's topics, of which none is compacted."""
OF_NAMES = {"F15", "G04", "G07"}
"""Those that need the records of Kafka's own topics as they were written: names in them are hashed."""


@pytest.fixture(scope="module")
def snapshots(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The snapshots of `unclean-before`, by the command line, one a way."""
    root = tmp_path_factory.mktemp("snapshots")
    key = root / "key"
    key.write_bytes(SECRET + b"\n")
    brokers = [
        f"--broker={b.name.removeprefix('broker-')}={b}" for b in sorted(golden("unclean-before").glob("broker-*"))
    ]
    for name, way in WAYS.items():
        how = [*way, str(key)] if way[-1] == "--hash-key" else way
        arguments = ["capture", "--cluster", "demo", *brokers, "--out", str(root), "--id", name, "--previous", "none"]
        done = tidegauge(*arguments, *how, home=root / "home")
        assert done.returncode == 0, done.stderr
    return root / "demo"


@pytest.fixture(scope="module")
def reports(snapshots: Path, tmp_path_factory: pytest.TempPathFactory, store_url: str) -> dict[str, Report]:
    out = tmp_path_factory.mktemp("audited")
    home = tmp_path_factory.mktemp("home")
    done = tidegauge(
        "audit", *(str(snapshots / name) for name in WAYS), "--out", str(out), "--store", store_url, home=home
    )
    assert done.returncode == 1, done.stderr
    return {name: json.loads((out / "demo" / name / "report.json").read_text()) for name in WAYS}


def judged(report: Report) -> dict[str, Any]:
    """Each invariant's verdict, with how many subjects it was checked on and what kept it from knowing."""
    kept = ("verdict", "checked", "breached", "unknown", "reasons")
    return {i["code"]: [i[name] for name in kept] for i in report["invariants"]}


def without(codes: set[str], verdicts: dict[str, Any]) -> dict[str, Any]:
    return {code: verdict for code, verdict in verdicts.items() if code not in codes}


def lost(report: Report, renamed: Callable[[str], str] = str) -> list[tuple[Any, ...]]:
    columns = (
        "partition",
        "start_offset",
        "end_offset",
        "records",
        "leader_epoch",
        "held_by",
        "state",
        "declared_committed",
    )
    return sorted((renamed(x["topic"]), *(x[name] for name in columns)) for x in report["losses"])


def breached(report: Report, renamed: Callable[[str], str] = str) -> list[str]:
    """Code, subject and range of each breach."""
    return sorted(
        repr((b["code"], b["severity"], b["start_offset"], b["end_offset"], sorted(subject(b, renamed).items())))
        for b in report["breaches"]
    )


def subject(breach: Mapping[str, Any], renamed: Callable[[str], str]) -> dict[str, str]:
    of = {name: value for name, value in breach["subject"].items() if name not in ("path", "group")}
    return {name: renamed(value) if name == "topic" else str(value) for name, value in of.items()}


def test_a_headers_snapshot_is_judged_as_the_full_one(reports: dict[str, Report]) -> None:
    full, headers = reports["full"], reports["headers"]
    assert without(OF_RECORDS, judged(headers)) == without(OF_RECORDS, judged(full))
    assert lost(headers) == lost(full)
    assert len(lost(full)) == 3
    assert headers["coverage"]["bytes"] == full["coverage"]["bytes"]


def test_what_only_records_tell_is_not_known_of_a_headers_snapshot(reports: dict[str, Report]) -> None:
    unknown = {i["code"]: i for i in reports["headers"]["invariants"] if "no payload" in i["reasons"]}
    assert set(unknown) == OF_RECORDS
    assert {i["verdict"] for i in unknown.values()} == {"unknown"}
    assert {judged(reports["full"])[code][0] for code in OF_RECORDS} == {"holds"}


def test_breaches_of_a_headers_snapshot_are_the_same_ones(reports: dict[str, Report]) -> None:
    def told(report: Report) -> dict[str, Any]:
        return {b["breach_id"]: (b["subject"], b["explanation"], b["evidence"]) for b in report["breaches"]}

    assert told(reports["headers"]) == told(reports["full"])


def test_hashed_names_are_judged_as_the_real_ones(reports: dict[str, Report]) -> None:
    hashed, full = reports["hashed"], reports["full"]
    unlike = OF_RECORDS | OF_NAMES
    assert without(unlike, judged(hashed)) == without(unlike, judged(full))
    assert {judged(hashed)[code][0] for code in unlike} == {"unknown"}
    assert lost(hashed) == lost(full, NAMES.hashed)
    assert breached(hashed) == breached(full, NAMES.hashed)
    assert "orders" not in json.dumps(reports["hashed"])


def test_salvage_says_that_there_is_nothing_to_take(snapshots: Path, tmp_path: Path) -> None:
    done = tidegauge(
        "salvage",
        str(snapshots / "headers"),
        "--topic",
        "orders",
        "--partition",
        "0",
        "--out",
        str(tmp_path / "out"),
        home=tmp_path / "home",
    )
    assert done.returncode == 2
    assert "was captured with --mode headers" in done.stderr
    assert not (tmp_path / "out").exists()
