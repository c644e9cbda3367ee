"""The repository itself: what a reader would stumble over is found here first."""

import ast
import graphlib
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
LINKED = sorted(link.name for link in (ROOT / "tidegauge").iterdir() if link.is_symlink())
ROOMS = ("tidegauge", *LINKED)
"""Folders of the product's modules. All but the first are linked into it, where they are imported from."""
LONGEST_MODULE = 500

# Spelled backwards, so that this file does not find itself.
_BACKWARDS = ("ODOT", "EMXIF", "rorrEdetnemelpmItoN", "piks.kram.tsetyp", "liafx.kram.tsetyp", "piks.tsetyp")
UNFINISHED = re.compile("|".join(re.escape(word[::-1]) for word in _BACKWARDS))
MACHINE_PATH = re.compile(r"(?:^|[^A-Za-z0-9_.])/(?:root|work|farm|home/[a-z]+|Users/[a-z]+)/")
REGISTRY = re.compile(r"https?://[^ \")]*(?:simple|packages|maven2|artifact)[/\" ]")


def _files(*suffixes: str) -> Iterator[Path]:
    """What git tracks or would track."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    names = [name for name in listing.stdout.split("\0") if name] or [
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts
    ]  # a source archive has no git
    for name in names:
        path = ROOT / name
        if path.is_file() and not name.startswith("tests/golden/") and (not suffixes or path.suffix in suffixes):
            yield path


def _found(pattern: re.Pattern[str], *suffixes: str) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in _files(*suffixes)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_module_is_longer_than_one_sitting():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in _files(".py")}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_nothing_is_unfinished_or_skipped():
    assert _found(UNFINISHED, ".py") == []


def test_no_path_of_one_machine():
    assert _found(MACHINE_PATH) == []


def test_no_package_registry():
    assert _found(REGISTRY, ".toml", ".txt", ".json", ".lock", ".xml", ".cfg") == []


CODE = re.compile(
    r"(?<![A-Za-z0-9_#/.-])([A-HJ-L][0-9]{2})(?![A-Za-z0-9_])(?:[\s|`\"',:(=]+((?:[A-Z][a-z0-9]+){2,})\b)?"
)
"""An invariant's code, with the name behind it where there is one."""


def test_every_invariant_that_is_named_is_in_the_catalogue():
    """In code, documents, runbooks, cases, panels and tests: a code that nobody judges is one that nobody finds."""
    from tidegauge.expectations.registry import CATALOGUE

    assert {code[0] for code in CATALOGUE} <= set("ABCDEFGHJKL"), "the pattern knows the families"
    wrong = set()
    for path in _files(".py", ".md", ".yaml", ".yml", ".sql", ".json", ".html", ".tpl", ".toml", ".js"):
        for code, name in CODE.findall(path.read_text(errors="replace")):
            if code not in CATALOGUE or name not in ("", CATALOGUE[code].name):
                wrong.add(f"{path.relative_to(ROOT)}: {code} {name}".rstrip())
    assert sorted(wrong) == []


def test_a_pin_is_a_name_and_a_version_and_the_digests_of_its_files():
    pin = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+( ; [^#\\]+)?( --hash=sha256:[0-9a-f]{64})+")
    for name in ("requirements.txt", "requirements-java.txt", "requirements-uv.txt"):
        pins = _pins(name)
        assert pins
        assert [line for line in pins if not pin.fullmatch(line)] == []


def _pins(name: str) -> list[str]:
    """The pins of a compiled file, each with its digests on one line."""
    return [" ".join(line.split()) for line in (ROOT / name).read_text().replace("\\\n", " ").splitlines()]


def test_every_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = {_name(requirement) for group in (project["dependencies"], *extras) for requirement in group}
    assert wanted <= pinned_names()


def pinned_names() -> set[str]:
    """The packages of requirements.txt."""
    return {_name(line) for line in _pins("requirements.txt")}


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match
    return re.sub(r"[-_.]+", "-", match.group()).lower()


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_says_what_it_is(room):
    # An invariant's statement is what a docstring would say again.
    spoken = (path for path in (ROOT / room).rglob("*.py") if not re.match(r"[A-Z]\d\d_", path.parent.name))
    silent = [path for path in spoken if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_every_room_is_linked_into_the_one_package():
    assert len(LINKED) > 10
    for name in LINKED:
        assert (ROOT / "tidegauge" / name).readlink() == Path("..", name)
        assert (ROOT / name / "__init__.py").is_file()


def test_a_room_is_imported_by_its_name_in_the_package():
    """By a bare name it would be there twice, as two modules, since a checkout's root may be on Python's path."""
    # Of nearly all files the text tells that there is nothing to parse; a line that goes on below is parsed.
    rooms = "|".join(LINKED)
    may_be_imported = re.compile(
        rf"^\s*(?:from\s+(?:{rooms})\b|import\b.*\b(?:{rooms})\b|.*\b(?:from|import)\b.*\\$)|;", re.M
    )
    bare = {
        (str(path.relative_to(ROOT)), name)
        for path in _files(".py")
        if may_be_imported.search(text := path.read_text())
        for node in ast.walk(ast.parse(text))
        for name in _imports(node)
        if name.split(".")[0] in LINKED
    }
    assert bare == set()


def test_dags_import_nothing_of_ours_and_no_engine():
    forbidden = {*ROOMS, "pyspark", "great_expectations", "pandas", "numpy", "sqlalchemy"}
    imported = {
        (path.name, name.split(".")[0])
        for path in (ROOT / "dags").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in _imports(node)
    }
    # Airflow hands its plugins rows of its own store.
    allowed = {("tidegauge_plugin.py", "sqlalchemy")}
    assert {(file, name) for file, name in imported if name in forbidden} == allowed


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def test_make_help_lists_every_target():
    declared = set(re.findall(r"^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert declared == set(re.findall(r"^  make (\S+) ", listed, re.MULTILINE))


def test_the_files_that_begin_first_are_there():
    from tests.conftest import LONGEST_FIRST

    assert [name for name in LONGEST_FIRST if not (ROOT / name).is_file()] == []
    assert len(set(LONGEST_FIRST)) == len(LONGEST_FIRST)


def test_contributing_names_every_make_target():
    declared = re.findall(r"^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [target for target in declared if f"make {target}" not in text] == []


def test_every_setting_that_is_read_is_listed():
    from tidegauge.settings import VARIABLES

    read = {name for path in _files(".py") if "tests" not in path.parts for name in _settings_in(path)}
    assert read - {variable.name for variable in VARIABLES} == set()


def _settings_in(path: Path) -> set[str]:
    return set(re.findall(r"""["'](TIDEGAUGE_[A-Z_]+)["']""", path.read_text()))


def test_no_import_is_exempt_from_the_contracts():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    assert [
        contract["name"] for contract in contracts if contract.keys() & {"ignore_imports", "exhaustive_ignores"}
    ] == []


def test_no_module_imports_itself_by_way_of_others():
    graph = grimp.build_graph("tidegauge", cache_dir=None)  # Imports for types alone, and inside of functions, too.
    arrows = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(arrows) > 500
    graphlib.TopologicalSorter(arrows).prepare()  # Raises CycleError, which names the circle.


GATHERS = re.compile(r"\.(collect|toPandas|toArrow|toLocalIterator)\(|\bpickle\b")


def test_what_comes_back_from_spark_to_the_driver_says_why_it_cannot_grow() -> None:
    found = 0
    for path in sorted((ROOT / "spark_jobs").glob("*.py")):
        if path.name == "make_class_archive.py":  # A rehearsal of a few rows, for the JVM's sake.
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for before, line in zip(["", *lines], lines, strict=False):
            if GATHERS.search(line):
                found += 1
                assert "#" in line or before.strip().startswith("#"), f"{path.name}: {line.strip()}"
    assert found == 4
