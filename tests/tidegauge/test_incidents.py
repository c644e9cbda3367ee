"""Incidents from the command line, on a real cluster's files: told, planned, ticked off, split and merged."""

import html
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from tests.console.filling import publish_capture
from tidegauge.cli.main import main
from tidegauge.console import server
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import Consistency

Golden = Callable[[str], Path]
AT = datetime(2026, 11, 22, 14, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def url(empty_store: str) -> str:
    return empty_store


def incidents(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["incidents", *arguments, "--store", url])


def said(result: Result) -> str:
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def listed(url: str, golden: Golden) -> dict[str, list[str]]:
    """Ids by cluster, the worst first."""
    publish_capture(url, golden("racks-unclean"), cluster="payments", snapshot_id="s1", captured_at=AT)
    publish_capture(url, golden("quorum-changed-unclean"), cluster="orders", snapshot_id="s1", captured_at=AT)
    found: dict[str, list[str]] = {}
    for incident in json.loads(incidents(url, "--json").output)["incidents"]:
        found.setdefault(incident["cluster"], []).append(incident["incident_id"])
    return found


def test_the_list_is_a_sentence_each_and_a_critical_one_is_exit_1(url: str, listed: dict[str, list[str]]) -> None:
    result = incidents(url, "--cluster", "payments")
    assert result.exit_code == 1
    assert [len(ids) for ids in listed.values()] == [1, 3]
    assert (
        "Unclean election 2026-11-22 13:59:52 UTC, broker 1 -> 2: orders-0, payments-0, 85 records at risk; "
        "believe broker 1; group billing had read up to 60 of them. Keep broker 1 down"
    ) in said(result)
    unknown = incidents(url, "--cluster", "nobody")
    assert (unknown.exit_code, "No run of a cluster named nobody" in unknown.output) == (2, True)


def test_one_is_shown_with_what_belongs_to_it_and_why(url: str, listed: dict[str, list[str]]) -> None:
    worst = listed["payments"][0]
    text = said(incidents(url, "show", worst))
    assert "What belongs to it (17):" in text
    assert "loss of orders-0, at risk" in text
    assert "made broker 2 leader of payments-0 (series)" in text
    whole = json.loads(incidents(url, "show", worst, "--json").output)
    assert whole["incident"]["records_at_risk"] == 85
    assert {m["rule"] for m in whole["members"]} == {"election", "series", "consequence", "same_records"}
    assert incidents(url, "show", "incident-none").exit_code == 2


def test_a_step_is_ticked_off_once_by_somebody_and_may_be_taken_back(url: str, listed: dict[str, list[str]]) -> None:
    worst = listed["payments"][0]
    assert incidents(url, "done", worst, "avoid", "--by", "ada").output == "avoid is done, by ada.\n"
    again = incidents(url, "done", worst, "avoid", "--by", "bob")
    assert (again.exit_code, again.output) == (0, "avoid was ticked off before, by ada: nothing was changed.\n")
    plan = CliRunner().invoke(main, ["plan", worst, "--store", url]).output
    assert "1. [x] Keep broker 1 down" in plan
    assert "(done by ada, " in " ".join(plan.split())
    assert "2. [ ] " in plan
    assert incidents(url, "done", worst, "avoid", "--undo").exit_code == 0
    assert "1. [ ] " in CliRunner().invoke(main, ["plan", worst, "--store", url]).output
    refused = incidents(url, "done", worst, "avoid", "--undo")
    assert (refused.exit_code, "there is nothing to take back" in said(refused)) == (2, True)
    refused = incidents(url, "done", worst, "dance")
    assert (refused.exit_code, "has no step dance" in said(refused)) == (2, True)


def test_what_is_split_and_merged_by_hand_is_said_and_what_cannot_be_too(
    url: str, listed: dict[str, list[str]]
) -> None:
    first, second, _ = listed["payments"]
    (other,) = listed["orders"]
    why = ("--note", "the same rack", "--by", "ada")
    for arguments, told in (
        (("merge", first, first), "cannot be merged into itself"),
        (("merge", first, other), "are of two clusters"),
        (("merge", "incident-none", other), "There is no incident incident-none"),
        (("split", first, "--breach", "D06-none"), "D06-none is not a member of"),
        (("split", first), "Name what to split off"),
    ):
        refused = incidents(url, *arguments, *why)
        assert (refused.exit_code, told in said(refused)) == (2, True), refused.output
    assert incidents(url, "merge", second, first, *why).exit_code == 0
    assert "125 records at risk" in said(incidents(url, "show", first))
    assert f"ada merged {second} into {first}: the same rack" in said(incidents(url, "show", first))
    moved = incidents(url, "show", second)
    assert (moved.exit_code, f"was merged into {first}" in said(moved)) == (2, True)
    again = incidents(url, "merge", second, first, *why)
    assert (again.exit_code, "nothing was changed" in again.output) == (0, True)
    whole = json.loads(incidents(url, "show", first, "--json").output)
    group = next(m["member"] for m in whole["members"] if m["code"] == "J04")
    apart = incidents(url, "split", first, "--breach", group, *why)
    assert apart.exit_code == 0, apart.output
    assert "D06-none" not in apart.output
    assert len(json.loads(incidents(url, "--cluster", "payments", "--json").output)["incidents"]) == 3


def test_to_acknowledge_one_is_to_acknowledge_its_breaches(url: str, listed: dict[str, list[str]]) -> None:
    (other,) = listed["orders"]
    result = incidents(url, "acknowledge", other, "--note", "on it", "--by", "ada")
    assert result.output == f"{other}: 14 breaches acknowledged, by ada.\n"
    assert "critical, acknowledged" in said(incidents(url, "--cluster", "orders"))
    again = incidents(url, "acknowledge", other, "--note", "on it", "--by", "ada")
    assert (again.exit_code, "nothing was changed" in again.output) == (0, True)


@pytest.fixture(scope="module")
def console(url: str) -> Iterator[httpx.Client]:
    with (
        server.running(url, host="127.0.0.1", port=0, docs=[]) as address,
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):
        yield client


def posted(console: httpx.Client, path: str, **form: str) -> httpx.Response:
    found = re.search(r'name="form_token" value="([^"]*)"', console.get(path).text)
    assert found is not None
    return console.post(
        path, data={"form_token": found[1], **form}, headers={"Origin": str(console.base_url).rstrip("/")}
    )


def text(console: httpx.Client, path: str) -> str:
    answer = console.get(path)
    assert answer.status_code == 200, answer.text
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def test_the_console_shows_the_same_sentence_the_checklist_and_takes_words(
    url: str, listed: dict[str, list[str]], console: httpx.Client
) -> None:
    (other,) = listed["orders"]
    told = json.loads(incidents(url, "show", other, "--json").output)["incident"]["headline"]
    path = f"/clusters/orders/incidents/{other}"
    for listing in ("/", "/clusters/orders", "/incidents"):
        assert told in text(console, listing)
    assert told in text(console, "/incidents?cluster=orders&state=all")
    assert "None." in text(console, "/incidents?cluster=nobody")
    page = text(console, path)
    assert page.index(told) < page.index("Keep broker 1 down") < page.index("What to do")
    assert "tidegauge salvage" in page
    assert "Records at risk 150" in page
    done = posted(console, path, action="done", step="avoid", who="bo")
    assert (done.status_code, done.headers["location"]) == (303, f"{path}?said=done")
    assert "done Keep broker 1 down" in text(console, path)
    assert "by bo unverified" in text(console, path)
    for form, status, word in (
        ({"action": "burn", "who": "bo"}, 400, "Choose one of"),
        ({"action": "done", "step": "avoid"}, 400, "Say who says so"),
        ({"action": "done", "step": "dance", "who": "bo"}, 409, "no such step"),
        ({"action": "merge", "into": other, "who": "bo", "note": "x"}, 400, "into itself"),
        ({"action": "merge", "into": listed["payments"][0], "who": "bo", "note": "x"}, 409, "of two clusters"),
        ({"action": "merge", "into": "incident-none", "who": "bo", "note": "x"}, 404, "no incident incident-none"),
        ({"action": "split", "members": "D06-none", "who": "bo", "note": "x"}, 409, "is no member"),
        ({"action": "split", "members": "D06-none", "who": "bo", "note": ""}, 400, "Say why"),
        ({"action": "acknowledge", "who": "bo", "hours": "0"}, 400, "how many hours"),
    ):
        refused = posted(console, path, **form)
        assert (refused.status_code, word in html.unescape(refused.text)) == (status, True), form
    assert posted(console, path, action="acknowledge", who="bo", note="on it").status_code == 303
    assert "acknowledged" in text(console, path)
    assert console.get(f"{path}0").status_code == 404
    moved = console.get(f"/clusters/payments/incidents/{listed['payments'][1]}")
    assert (moved.status_code, "was merged into" in html.unescape(moved.text)) == (404, True)


@pytest.mark.slow
@pytest.mark.jvm
def test_each_command_of_a_plan_runs_in_a_shell_as_it_is_printed(
    golden: Golden, tmp_path: Path, store_url: str
) -> None:
    snapshot = tmp_path / "a copy of it"
    subprocess.run(["cp", "-a", "--sparse=always", golden("racks-unclean"), snapshot], check=True)
    adopt(snapshot, cluster="pay ments", consistency=Consistency.FUZZY)
    stand_ins(tmp_path)
    environ = {**os.environ, "PATH": f"{tmp_path / 'path'}:{os.environ['PATH']}", "TIDEGAUGE_STORE_URL": store_url}

    def run(command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )

    audited = run(f"tidegauge audit {shlex.quote(str(snapshot))} --out out --quiet")
    assert audited.returncode == 1, audited.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    ran = 0
    for incident in report["incidents"]:
        from_store, from_report = (
            run(f"tidegauge plan {incident['incident_id']} {where} --bootstrap b1:9092").stdout
            for where in ("", "--report out")
        )
        assert from_store == from_report
        for command in commands(from_report):
            if "NEW_SNAPSHOT" in command:
                command = command.replace("NEW_SNAPSHOT", shlex.quote(str(snapshot)))
                assert run(command).returncode == 2, "it is the same snapshot, which is said"
                continue
            done = run(command)
            if " replay " in command:
                assert (done.returncode, "b1:9092" in done.stderr) == (3, True), (
                    "what was saved is taken; nobody answers"
                )
                continue
            # Whoever lists losses is told by the exit code that some wait.
            assert done.returncode == (1 if " losses list " in command else 0), f"{command}: {done.stderr}"
            ran += 1
    recorded = (tmp_path / "recorded").read_text().splitlines()
    assert "--bootstrap-server b1:9092 --describe --group billing" in recorded
    assert ran >= 12
    assert (tmp_path / "salvaged-orders-0-120-broker1" / "salvage.json").exists()


def commands(plan: str) -> list[str]:
    """The lines that are to be pasted."""
    return [line.strip() for line in plan.splitlines() if line.startswith("    ") and not line.startswith("       ")]


def stand_ins(folder: Path) -> None:
    """Kafka's tools, which note what they were asked; and our own command, as an installation has it."""
    tools = folder / "bin"
    tools.mkdir()
    for name in ("kafka-topics.sh", "kafka-consumer-groups.sh", "kafka-dump-log.sh", "kafka-log-dirs.sh"):
        (tools / name).write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(folder / "recorded"))}\n')
        (tools / name).chmod(0o755)
    ours = folder / "path" / "tidegauge"
    ours.parent.mkdir()
    ours.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tidegauge "$@"\n')
    ours.chmod(0o755)


def test_every_key_of_the_json_is_in_the_reference(url: str, listed: dict[str, list[str]]) -> None:
    page = (Path(__file__).parents[2] / "docs/reference/incidents.md").read_text(encoding="utf-8")
    whole = json.loads(incidents(url, "show", listed["payments"][0], "--json").output)
    keys = {*whole, *whole["incident"], *whole["members"][0], *whole["steps"][0], *whole["events"][0]}
    assert [key for key in sorted(keys) if f"`{key}`" not in page] == []
