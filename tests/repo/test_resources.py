"""What needs a resource says so: fixtures that start one, markers, and the refusal of what has none."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.resources import RESOURCES

ROOT: Final = Path(__file__).parents[2]
TESTS: Final = ROOT / "tests"

STARTERS: Final = {
    "postgres.running": {"postgres"},
    "postgres.store": {"postgres"},
    "s3_servers.running": {"jvm"},
    "running": {"jvm"},
    "KafkaCluster": {"jvm", "kafka"},
    "RenderedCluster": {"jvm", "kafka"},
    "chromium": {"browser"},
    "airflow.running": {"airflow"},
    "api_server.running": {"kubernetes"},
}
"""How a test starts a resource, as it is written in a call. `running` alone is the oracle's."""


@cache
def fixtures() -> list[tuple[str, ast.FunctionDef, set[str]]]:
    """Every fixture below tests/: where, the function, and the markers that its whole module has."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("*.py"))}
    return [each for path, text in texts.items() if "fixture" in text for each in fixtures_of(path, ast.parse(text))]


def fixtures_of(path: Path, tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef, set[str]]]:
    marks = {
        match
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for match in re.findall(r"pytest\.mark\.(\w+)", ast.unparse(node.value))
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any("fixture" in ast.unparse(d) for d in node.decorator_list):
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}", node, marks


def calls(function: ast.FunctionDef) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}


def said(function: ast.FunctionDef) -> set[str]:
    """What `@starts` says."""
    decorators = (d for d in function.decorator_list if isinstance(d, ast.Call) and ast.unparse(d.func) == "starts")
    return {ast.literal_eval(argument) for decorator in decorators for argument in decorator.args}


def test_a_fixture_that_starts_a_resource_says_so() -> None:
    silent = {}
    known = set()
    for where, function, marks in fixtures():
        started = calls(function) & STARTERS.keys()
        known |= started
        lacking = set().union(*(STARTERS[call] for call in started)) - said(function) - marks
        if lacking:
            silent[where] = lacking
    assert silent == {}, "write @starts(...) below pytest.fixture"
    assert {"postgres.running", "s3_servers.running", "running", "KafkaCluster", "chromium"} <= known


def test_what_a_fixture_says_is_a_resource() -> None:
    words = {word for _, function, _ in fixtures() for word in said(function)}
    assert words == set(RESOURCES)


def test_every_resource_is_a_marker_that_is_explained() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert "--strict-markers" in settings["addopts"]
    declared = {line.split(":")[0] for line in settings["markers"]}
    assert declared == {*RESOURCES, "slow", "soak"}
    explained = re.findall(r"^\| `(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(RESOURCES) <= set(explained)


TRIES = """
import subprocess
import pytest
from tests.resources import starts


@pytest.fixture(scope="session")
@starts("jvm", "kafka")
def cluster():
    return "a cluster"


@pytest.fixture
def client(cluster):
    return f"a client of {cluster}"


@pytest.fixture
def secret():
    start("/nowhere/initdb")


def start(program):
    with pytest.raises(FileNotFoundError):  # Nobody refused it, and it is not there.
        subprocess.run([program])


def test_by_another_fixture(client):
    start("/nowhere/java")


@pytest.mark.postgres
def test_by_itself():
    start("/nowhere/initdb")


def test_without_a_word():
    start("/nowhere/java")


@pytest.mark.jvm
def test_with_another_word():
    start("/nowhere/pg_ctl")


def test_by_a_fixture_that_says_nothing(secret):
    pass


def test_a_stand_in(tmp_path):
    start(f"{tmp_path}/java")


def test_nothing():
    start("/nowhere/git")
"""


@pytest.fixture
def tries(tmp_path: Path) -> Path:
    """A folder of tests with the plugin, and nothing of ours besides."""
    (tmp_path / "test_tries.py").write_text(TRIES)
    markers = "".join(f"\n  {resource}: x" for resource in RESOURCES)
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\naddopts = --strict-markers\npythonpath = {ROOT}\nmarkers ={markers}\n"
    )
    return tmp_path


def tried(directory: Path, *options: str) -> dict[str, str]:
    """Test -> its outcome."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.resources", "-p", "no:cacheprovider", "-v", *options,
         "--basetemp", "scratch"],
        cwd=directory, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return dict(re.findall(r"::(\w+) (PASSED|FAILED|ERROR)", done.stdout))


def test_what_a_test_does_not_say_is_refused_it(tries: Path) -> None:
    assert tried(tries) == {
        "test_by_another_fixture": "PASSED",
        "test_by_itself": "PASSED",
        "test_without_a_word": "FAILED",
        "test_with_another_word": "FAILED",
        "test_by_a_fixture_that_says_nothing": "ERROR",
        "test_a_stand_in": "PASSED",
        "test_nothing": "PASSED",
    }


def test_who_has_no_java_runs_what_needs_none(tries: Path) -> None:
    assert tried(tries, "-m", "not jvm and not postgres").keys() == {
        "test_without_a_word", "test_by_a_fixture_that_says_nothing", "test_a_stand_in", "test_nothing",
    }  # fmt: skip
    assert tried(tries, "-m", "kafka").keys() == {"test_by_another_fixture"}
