"""Settings come from the environment and have defaults."""

from pathlib import Path

import pytest

from tidegauge import settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for variable in settings.VARIABLES:
        monkeypatch.delenv(variable.name, raising=False)


def test_without_any_variable_there_is_an_answer_to_everything():
    assert settings.home().name == "tidegauge"
    assert settings.store_url() is None
    assert settings.spark_master() == "local[*]"
    assert settings.snapshots_root() == str(settings.home() / "snapshots")


def test_a_variable_wins(monkeypatch, tmp_path):
    monkeypatch.setenv("TIDEGAUGE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGAUGE_STORE_URL", "none")
    monkeypatch.setenv("TIDEGAUGE_SPARK_MASTER", "spark://master:7077")
    assert settings.home() == tmp_path
    assert settings.store_url() == "none"
    assert settings.spark_master() == "spark://master:7077"
    assert settings.snapshots_root() == str(tmp_path / "snapshots")


def test_an_empty_variable_counts_as_not_set(monkeypatch):
    for variable in settings.VARIABLES:
        monkeypatch.setenv(variable.name, "")
    assert settings.store_url() is None
    assert settings.spark_master() == "local[*]"


def test_home_is_absolute(monkeypatch):
    monkeypatch.setenv("TIDEGAUGE_HOME", "state")
    assert settings.home() == Path.cwd() / "state"


def test_every_variable_is_listed_once_with_its_meaning():
    names = [variable.name for variable in settings.VARIABLES]
    assert len(names) == len(set(names))
    assert all(variable.meaning.endswith(".") for variable in settings.VARIABLES)
