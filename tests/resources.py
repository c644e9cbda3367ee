"""What a test needs of its machine: in, what its fixtures start; out, a marker for each, and a refusal of the rest.

    jvm         a Java: Spark, the S3 server, Kafka's classes, Helm's code
    postgres    the embedded server
    kafka       running brokers, which are Java too
    browser     a Chromium
    airflow     the package
    kubernetes  an API server and its etcd, and Go to build them

A fixture says by `@starts` what it starts, and every test that requests it, by whatever way, gets the marker here. A
test that starts something itself, by a command or a call, says so with the marker. The rule that must hold: a test
without a marker passes on a machine without the resource. So a process that such a test starts in spite of it is
refused, wherever it runs, and `tests/repo/test_resources.py` finds the fixture that says nothing.

pytest knows this module as a plugin (`tests/conftest.py`).
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import pytest

P = ParamSpec("P")
R = TypeVar("R")

RESOURCES: Final = ("jvm", "postgres", "kafka", "browser", "airflow", "kubernetes")

PROGRAMS: Final[Mapping[str, str]] = {
    "java": "jvm", "javac": "jvm", "mvn": "jvm", "spark-submit": "jvm",
    "initdb": "postgres", "pg_ctl": "postgres", "postgres": "postgres",
    "airflow": "airflow",
    "go": "kubernetes", "etcd": "kubernetes", "kube-apiserver": "kubernetes", "kube-controller-manager": "kubernetes",
}  # fmt: skip
"""The programs that are a resource."""

_ATTRIBUTE: Final = "starts_resources"
_base_temp: Path | None = None
"""Below which pytest makes its directories, if it was named."""
_needs: frozenset[str] | None = None
"""Of the test that is set up or runs now; None after it, when fixtures of a module or a session may stop anything."""


def starts(*resources: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator below `pytest.fixture`: the function starts these, and who requests it needs them."""
    assert set(resources) <= set(RESOURCES), resources

    def said(function: Callable[P, R]) -> Callable[P, R]:
        setattr(function, _ATTRIBUTE, resources)
        return function

    return said


def started_by(function: Callable[..., Any]) -> tuple[str, ...]:
    """What a fixture's function says that it starts."""
    resources: tuple[str, ...] = getattr(function, _ATTRIBUTE, ())
    return resources


def pytest_itemcollected(item: pytest.Item) -> None:
    """Every test gets the markers of the fixtures that it requests, directly or by others."""
    definitions = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    for resource in {r for chain in definitions for definition in chain for r in started_by(definition.func)}:
        item.add_marker(resource)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """A fixture starts nothing that the test has no marker for: then it lacks `@starts`."""
    with _watched(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Nor does the test itself: then it lacks the marker."""
    with _watched(item):
        return (yield)


@contextmanager
def _watched(item: pytest.Item) -> Iterator[None]:
    global _needs
    _needs = frozenset(resource for resource in RESOURCES if item.get_closest_marker(resource))
    try:
        yield
    finally:
        _needs = None


def pytest_configure(config: pytest.Config) -> None:
    """A hook of the interpreter: it sees every process that this one starts, whatever library asks for it."""
    global _base_temp
    _base_temp = Path(config.option.basetemp).absolute() if config.option.basetemp else None
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "subprocess.Popen" or _needs is None:
        return
    program = Path(os.fsdecode(arguments[0]))
    resource = PROGRAMS.get(program.name)
    if resource is not None and resource not in _needs and not _is_a_stand_in(program):
        raise PermissionError(f"This test starts {program} and has no marker {resource}: see tests/resources.py")


def _is_a_stand_in(program: Path) -> bool:
    """A test wrote it, below `tmp_path`."""
    if _base_temp is not None:
        return program.is_relative_to(_base_temp)
    return any(part.startswith("pytest-of-") for part in program.parts)
