"""A new invariant is a folder: the skeleton is refused, written, filled in and taken up, in a copy of the checkout."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.expectations.test_cases import FOLDERS
from tidegauge.cli.main import main
from tidegauge.dev.new_invariant import FILL_IN, SKELETON
from tidegauge.expectations.registry import CATALOGUE

ROOT = Path(__file__).parents[3]
# Put together, since no code may be named that nobody judges (tests/repo).
CODE, NAME = "D" + "99", "LeaderHoldsRecords"
FOLDER = f"expectations/invariants/{CODE}_{NAME}"

INVARIANT = '''
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import lines

INVARIANT = Invariant(
    code="CODE",
    key="LEADER_HOLDS_RECORDS",
    name="LeaderHoldsRecords",
    severity=Severity.WARNING,
    relation="replicas",
    statement="A leader's log holds a batch.",
    because="This one is made up by a test.",
    applies_when="is_leader",
    unknown=(Unknown(reason="a reason of its own", evidence=Evidence.SEGMENT, when="log_end_offset IS NULL"),),
    breach_when="log_end_offset = log_start_offset",
    evidence=("log_end_offset",),
    explanation=lines("""
        Broker {broker_id} leads {topic}-{partition}, and its log ends where it starts,
          at {log_end_offset}.
    """),
    next="ls <log.dirs>/{topic}-{partition}",
    points_to="lost_flush",
    reference="none",
    since="0.1",
)
'''
CASES = """
holds_when_a_leader_has_records:
  row: &leader {is_leader: true, log_start_offset: 0, log_end_offset: 7}
breached_when_a_leader_has_none:
  row: {<<: *leader, log_end_offset: 0}
  says: its log ends where it starts, at 0
unknown_when_nothing_can_be_read:
  row: {<<: *leader, log_end_offset: null}
  reason: a reason of its own
"""
RUNBOOK = f"# {NAME} ({CODE})\n\n## Meaning\nA\n\n## Impact\nB\n\n## Diagnosis\nC\n\n## Mitigation\nD\n"
PROOF = '"""Nothing of it."""\n'
RENDERED = """
import json
import great_expectations as gx
import invariant_pages
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.gx.suites import suites

gx.get_context(mode="ephemeral")
members = suites()["replicas"].expectations
print(json.dumps({
    "codes": list(CATALOGUE),
    "suite": [one.meta["code"] for one in members],
    "page": dict(invariant_pages.pages())["CODE-LeaderHoldsRecords.md"],
    "index": dict(invariant_pages.pages())["README.md"],
}))
"""


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["dev", "new-invariant", *arguments])


@pytest.mark.parametrize(
    ("code", "name", "relation", "says"),
    [
        ("D01", NAME, "replicas", "D01 is LeaderEpochNeverFalls. The newest code of its family is "),
        (CODE.lower(), NAME, "replicas", f"{CODE.lower()} is no code"),
        ("D9", NAME, "replicas", "D9 is no code"),
        ("I99", NAME, "replicas", "I99 is no code"),
        (f"../{CODE}", NAME, "replicas", f"../{CODE} is no code"),
        (CODE, "leaderHoldsRecords", "replicas", "leaderHoldsRecords is no name"),
        (CODE, "Leader_Log", "replicas", "Leader_Log is no name"),
        (CODE, "LeaderEpochNeverFalls", "replicas", "LeaderEpochNeverFalls is the name of D01."),
        (CODE, NAME, "replica", "There is no relation replica. Is it replicas"),
        (CODE, NAME, "zzz", "There are broker_changes, "),
    ],
)
def test_what_cannot_be_an_invariant_is_refused(code: str, name: str, relation: str, says: str) -> None:
    before = set(FOLDERS.iterdir())
    result = asked(code, name, "--relation", relation)
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())
    assert set(FOLDERS.iterdir()) == before


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Of the repository, what an invariant is made of; everything else is the repository's own."""
    wanted = ("expectations", "docs", "tests/expectations")
    for name in wanted:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
    shutil.copytree(ROOT / "tidegauge", tmp_path / "tidegauge", symlinks=True)
    for link in (ROOT / "tidegauge").iterdir():
        if link.is_symlink() and link.name not in wanted:
            (tmp_path / link.name).symlink_to(ROOT / link.name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "tests" / "fact_tables.py", tmp_path / "tests")
    return tmp_path


def run(checkout: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join(str(each) for each in (checkout, checkout / "docs", ROOT))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )


def begun(checkout: Path) -> None:
    """The skeleton, written by the command that the checkout has."""
    done = run(checkout, "-m", "tidegauge", "dev", "new-invariant", CODE, NAME, "--relation", "replicas")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[: len(SKELETON)] == [str(checkout / FOLDER / file) for file in SKELETON]


def judged(checkout: Path) -> "subprocess.CompletedProcess[str]":
    """The catalogue's own test, of the new invariant."""
    chosen = ("tests/expectations/test_catalogue.py", "-k", f"{CODE} or reason or order or folder")
    return run(checkout, "-m", "pytest", *chosen, "-q", "-p", "no:cacheprovider", "--basetemp", "scratch")


def digests(directory: Path) -> Mapping[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_a_folder_that_is_filled_in_is_all_that_a_new_invariant_takes(checkout: Path) -> None:
    before = digests(checkout)
    begun(checkout)
    unfinished = judged(checkout)
    assert unfinished.returncode == 1
    assert f"{FILL_IN}: what must hold, in one sentence." in unfinished.stdout
    for file in SKELETON[1:]:
        assert f"{CODE}_{NAME}/{file}:" in unfinished.stdout
    texts = {
        "invariant.py": INVARIANT.replace("CODE", CODE),
        "runbook.md": RUNBOOK,
        "cases.yaml": CASES,
        "proof.py": PROOF,
    }
    for file, text in texts.items():
        (checkout / FOLDER / file).write_text(text)

    finished = judged(checkout)
    assert finished.returncode == 0, finished.stdout
    rendered = run(checkout, "-c", RENDERED.replace("CODE", CODE))
    assert rendered.returncode == 0, rendered.stderr
    found = json.loads(rendered.stdout.splitlines()[-1])
    assert found["codes"] == sorted([*CATALOGUE, CODE])
    assert CODE in found["suite"]
    assert "**A leader's log holds a batch.**" in found["page"]
    assert "unknown: a reason of its own" in found["page"]
    assert f"| {CODE} | [{NAME}]({CODE}-{NAME}.md) | warning |" in found["index"]

    shutil.rmtree(checkout / "scratch", ignore_errors=True)
    after = digests(checkout)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {f"{FOLDER}/{file}" for file in SKELETON}


@pytest.mark.slow
def test_what_is_there_is_never_written_over_and_a_package_is_no_checkout(checkout: Path) -> None:
    kept = checkout / FOLDER / "runbook.md"
    kept.parent.mkdir()
    kept.write_text("mine")
    again = run(checkout, "-m", "tidegauge", "dev", "new-invariant", CODE, NAME, "--relation", "replicas")
    assert again.returncode == 2
    assert "is there already." in again.stderr
    assert [path.name for path in kept.parent.iterdir()] == ["runbook.md"]

    shutil.rmtree(kept.parent)
    (checkout / "pyproject.toml").unlink()
    installed = run(checkout, "-m", "tidegauge", "dev", "new-invariant", CODE, NAME, "--relation", "replicas")
    assert installed.returncode == 2
    assert "an installed package" in installed.stderr
    assert not list((checkout / "expectations" / "invariants").glob(f"{CODE}*"))
