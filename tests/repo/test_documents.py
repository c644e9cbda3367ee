"""The documents against the code: what they tell is there, and what they were generated from has not moved on."""

import importlib
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import click
import pytest

from tests.docs.shell import without_totals
from tidegauge.cli import main as cli
from tidegauge.expectations.incidents.model import Incident
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach, InvariantResult
from tidegauge.relations import COMMON, LOSSES

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "STYLE.md",
    "CHANGELOG.md",
    "docs/accuracy.md",
    "docs/concepts/evidence.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "reference").glob("**/*.md")),
    "benchmarks/README.md",
)
LINKED = (
    *DOCUMENTS,
    "tests/golden/README.md",
    "expectations/invariants/README.md",
    "helm/README.md",
    "grafana/README.md",
    *sorted(
        str(path.relative_to(ROOT))
        for pattern in ("*.md", "concepts/*.md", "decisions/*.md", "guides/*.md")
        for path in (ROOT / "docs").glob(pattern)
    ),
)

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:^|[`\s(;])(tidegauge (?:-|[a-z])[^`\n]*)", re.MULTILINE)
MAKE = re.compile(r"(?:^ +|`)make ([a-z]+)", re.MULTILINE)
DOTTED = re.compile(r"`([a-z_]+(?:\.(?!py|json|md|toml|yml|log|jsonl)[A-Za-z_]+)+)`")
PLACES = ("", "tidegauge.", "tidegauge.facts.", "tidegauge.expectations.")
"""Where the tour's names are to be looked up."""
KAFKAS = {"delete.retention.ms", "min.insync.replicas", "retention.ms", "server.properties"}
"""Dotted names that are settings."""
PYTHON_FILE = re.compile(r"(?:python|pytest) ((?:docs|benchmarks|tests)/[\w./]+)")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_parts_are_what_the_code_says_today(generate):
    assert generate.stale() == [], "run python docs/generate.py"


def test_a_changed_part_is_seen_and_made_anew_and_nothing_else_is_touched(generate):
    text = "before\n<!-- generated: one -->\nold\n<!-- end of one -->\nafter\n"
    new = generate.renewed(text, "generated", {"one": lambda: iter(["new", "lines"])})
    assert new == "before\n<!-- generated: one -->\nnew\nlines\n<!-- end of one -->\nafter\n"
    assert generate.renewed(new, "generated", {"one": lambda: iter(["new", "lines"])}) == new
    with pytest.raises(ValueError, match="0 places"):
        generate.renewed(text, "generated", {"two": lambda: iter([])})
    with pytest.raises(ValueError, match="0 places"):
        generate.renewed(text, "built", {"one": lambda: iter([])})


def test_links_lead_somewhere(subtests):
    for name in LINKED:
        with subtests.test(name):
            assert broken_links(name) == []


def broken_links(name: str) -> list[str]:
    broken = []
    for target in LINK.findall(FENCE.sub("", read(name))):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)
    return broken


def anchors(text: str) -> set[str]:
    """What a heading is called in a link: lower case, hyphens for spaces, without punctuation."""
    headings = re.findall(r"^#+ +(.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands_in(text: str) -> Iterator[list[str]]:
    """Each `tidegauge …` that a text tells its reader to run, as words."""
    for found in COMMAND.findall(text):
        line = re.split(r"\s+#|[;|]|\.$", re.sub(r"<[^>]*>", "VALUE", found).replace("…", ""))[0]
        yield shlex.split(line.rstrip(":,. )"), posix=True)


def problem_with(words: list[str]) -> str | None:
    """What the command line would not understand in a command."""
    command: click.Command = cli.main
    for word in words[1:]:
        known = {name for parameter in command.params for name in parameter.opts} | {"--help", "-h", "--version"}
        if word.startswith("-"):
            if word not in known:
                return f"{' '.join(words)}: {command.name} has no option {word}"
        elif isinstance(command, click.Group):
            if word not in command.commands and word.isupper():
                return None  # `tidegauge --debug COMMAND`
            if word not in command.commands:
                return f"{' '.join(words)}: {command.name} has no command {word}"
            command = command.commands[word]
    return None


def test_commands_that_are_told_exist(subtests):
    for name in DOCUMENTS:
        with subtests.test(name):
            assert [problem for words in commands_in(read(name)) if (problem := problem_with(words))] == []


def test_commands_that_built_pages_tell_exist(generate):
    made = generate.reference_pages
    texts = [text for pages in (made.command_pages(), made.relation_pages()) for _, text in pages]
    texts += ["\n".join(lines()) for lines in (made.commands, made.relations, made.settings, made.views, made.truth)]
    told = [words for text in texts for words in commands_in(text)]
    assert len(told) > 20
    assert [problem for words in told if (problem := problem_with(words))] == []


def test_commands_that_runbooks_and_breaches_tell_exist():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "expectations" / "invariants").glob("*/runbook.md")]
    texts += [invariant.next for invariant in CATALOGUE.values()]
    told = [words for text in texts for words in commands_in(text)]
    assert len(told) > 20
    assert [problem for words in told if (problem := problem_with(words))] == []


def test_a_command_that_does_not_exist_is_seen():
    assert list(commands_in("    tidegauge audit DIR --out OUT  # then\n")) == [
        ["tidegauge", "audit", "DIR", "--out", "OUT"]
    ]
    assert problem_with(["tidegauge", "audit", "DIR", "--out", "OUT"]) is None
    assert "no command observe" in (problem_with(["tidegauge", "observe"]) or "")
    assert "no option --hurry" in (problem_with(["tidegauge", "snapshot", "adopt", "DIR", "--hurry"]) or "")


def test_every_command_is_in_the_reference_and_those_for_people_in_a_guide(generate):
    paths = [" ".join(path) for path, _ in generate.reference_pages.runnable()]
    assert len(paths) > 20
    pages = dict(generate.reference_pages.command_pages())
    assert [path for path in paths if f"\n    {path}" not in pages[f"{path.split()[1]}.md"]] == []
    table = "\n".join(generate.reference_pages.commands())
    assert [path for path in paths if f"[`{path}`](" not in table] == []
    guides = [name for name in LINKED if name.startswith("docs/guides/")]
    pages = ["README.md", "CONTRIBUTING.md", "docs/tutorial.md", *guides]
    told = {" ".join(words) for name in pages for words in commands_in(read(name))} | {
        "tidegauge demo",
        "tidegauge job",
    }
    assert [path for path in paths if not any(words.startswith(path) for words in told)] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_make_targets_and_scripts_that_are_told_exist(name):
    targets = set(re.findall(r"^\.PHONY: (\S+)$", read("Makefile"), re.MULTILINE))
    assert set(MAKE.findall(read(name))) <= targets
    assert [path for path in PYTHON_FILE.findall(read(name)) if not (ROOT / path).exists()] == []


def test_the_readme_begins_with_its_two_commands():
    assert {"demo", "test"} <= set(MAKE.findall(read("README.md")))


def test_modules_and_functions_of_the_tour_exist():
    pages = ["ARCHITECTURE.md", *(name for name in LINKED if name.startswith("docs/decisions/"))]
    named = {name for page in pages for name in DOTTED.findall(read(page))} - KAFKAS
    assert len(named) > 25
    assert sorted(name for name in named if not any(exists(f"{place}{name}") for place in PLACES)) == []
    assert not exists("tidegauge.facts.replicas.watermarks.nothing_of_this_name")


def exists(name: str) -> bool:
    """Whether a dotted name is a module of ours, or an attribute of one."""
    module, _, attribute = name.rpartition(".")
    with suppress(ImportError):
        return importlib.import_module(name) is not None
    with suppress(ImportError):
        return hasattr(importlib.import_module(module), attribute)
    return False


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md", "docs/concepts/evidence.md", "docs/accuracy.md"])
def test_how_many_invariants_there_are_is_what_the_catalogue_says(name):
    told = re.findall(r"\b(\d+) invariants:|\bof (\d+) verdicts\b|invariants that hold, of (\d+)", read(name))
    assert {int(number) for found in told for number in found if number} <= {len(CATALOGUE)}


def test_the_readme_and_the_map_are_short():
    text = read("README.md")
    assert len(text.splitlines()) <= 150
    assert len(text.encode()) <= 8192
    assert len(read("ARCHITECTURE.md").splitlines()) <= 250


def test_every_decision_has_its_four_parts_and_its_number():
    pages = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    numbers = [int(path.name[:4]) for path in pages]
    assert sorted(set(numbers)) == numbers
    for number, path in zip(numbers, pages, strict=True):
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {number}. "), path.name
        assert path.name.startswith(f"{number:04d}-")
        assert {"## Context", "## Decision", "## Cost", "## What would change it"} <= set(text.splitlines()), path.name
        assert f"]({path.name})" in read("docs/decisions/README.md")


def test_exit_codes_are_the_ones_in_use():
    told = set(map(int, re.findall(r"^\| (\d+) \| ", read("docs/reference/exit-codes.md"), re.MULTILINE)))
    assert told == {0, cli.EXIT_BREACHES, cli.EXIT_UNUSABLE, cli.EXIT_ENVIRONMENT, cli.EXIT_OUR_FAULT}


def test_the_reports_keys_are_in_the_reference():
    common = {column.name for column in COMMON}
    told = {
        "invariants": {field.name for field in fields(InvariantResult)},
        "incidents": {field.name for field in fields(Incident)},
        "breaches": {field.name for field in fields(Breach)},
        "losses": set(LOSSES.column_names) - common,
    }
    for key, names in told.items():
        row = row_of(key)
        assert [name for name in names if f"`{name}`" not in row] == []


def row_of(key: str) -> str:
    (row,) = re.findall(rf"^\| `{key}` \| (.*)$", read("docs/reference/report.md"), re.MULTILINE)
    return str(row)


@pytest.mark.slow
@pytest.mark.jvm
def test_the_readmes_report_is_what_an_audit_prints(golden, tmp_path, store_url):
    out = tmp_path / "out"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tidegauge",
            "audit",
            str(golden("unclean-before")),
            "--out",
            str(out),
            "--store",
            store_url,
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TIDEGAUGE_HOME": str(tmp_path / "home")},
        timeout=600,
        check=False,
    )
    assert done.returncode == cli.EXIT_BREACHES, done.stderr
    (block,) = re.findall(r"^```text\n(.*?)^```", read("README.md"), re.DOTALL | re.MULTILINE)
    # A breach's id hashes the cluster's name too, which is another one in the demonstration.
    printed, told = (
        re.sub(r"\[(\w+)-\w{10}\]", r"[\1]", without_totals(text)).splitlines() for text in (done.stdout, block)
    )
    assert [line for line in told if line not in printed] == []
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert [key for key in report if f"| `{key}` |" not in read("docs/reference/report.md")] == []
    for part in ("run", "coverage"):
        assert [key for key in report[part] if f"`{key}`" not in row_of(part)] == []
