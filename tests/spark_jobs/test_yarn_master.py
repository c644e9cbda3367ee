"""Where YARN is, by Hadoop's settings; and one that is not there is one sentence."""

import re
import socket
from pathlib import Path

import pytest

from tidegauge.runs.errors import SparkError
from tidegauge.spark_jobs.reach import must_answer
from tidegauge.spark_jobs.yarn_master import resource_managers

RM = "yarn.resourcemanager"


def site(folder: Path, **settings: str) -> Path:
    folder.mkdir(exist_ok=True)
    properties = "".join(
        f"<property><name>{RM}.{name.replace('__', '.').replace('_', '-')}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    (folder / "yarn-site.xml").write_text(f'<?xml version="1.0"?><configuration>{properties}</configuration>')
    return folder


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, [("0.0.0.0", 8032)]),  # noqa: S104 - YARN's default
        ({"hostname": "rm.example"}, [("rm.example", 8032)]),
        ({"address": "rm.example:9032"}, [("rm.example", 9032)]),
        ({"address": "rm.example"}, [("rm.example", 8032)]),
        ({"address": " [::1]:9032\n"}, [("::1", 9032)]),
        ({"hostname": "rm.example", "address": f"${{{RM}.hostname}}:8050"}, [("rm.example", 8050)]),
        ({"hostname": f"${{{RM}.hostname}}"}, []),
        (
            {"ha__enabled": "true", "ha__rm_ids": "a, b", "hostname__a": "one", "address__b": "two:1"},
            [("one", 8032), ("two", 1)],
        ),
        ({"ha__enabled": "false", "ha__rm_ids": "a,b", "hostname": "one", "hostname__a": "two"}, [("one", 8032)]),
    ],
)
def test_where_it_is(tmp_path: Path, settings: dict[str, str], found: list[tuple[str, int]]) -> None:
    place = site(tmp_path / "conf", **settings)
    if not found:  # A name that stands for itself: whoever connects finds that nobody knows it.
        assert resource_managers({"YARN_CONF_DIR": str(place)}) == [(f"${{{RM}.hostname}}", 8032)]
    else:
        assert resource_managers({"YARN_CONF_DIR": str(place)}) == found


def test_the_first_directory_that_has_the_file_counts(tmp_path: Path) -> None:
    one, two = site(tmp_path / "one", hostname="one"), site(tmp_path / "two", hostname="two")
    environ = {"HADOOP_CONF_DIR": str(one), "YARN_CONF_DIR": str(two)}
    assert resource_managers(environ) == [("one", 8032)]
    (one / "yarn-site.xml").unlink()
    assert resource_managers(environ) == [("two", 8032)]


def test_no_settings_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SparkError, match="neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"):
        must_answer("yarn")


def test_settings_that_are_no_xml_are_told(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    with pytest.raises(SparkError, match=re.escape(str(tmp_path / "yarn-site.xml"))):
        resource_managers({"HADOOP_CONF_DIR": str(tmp_path)})


def test_nobody_there_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        place = site(tmp_path / "conf", address=f"127.0.0.1:{port}")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(place))
        must_answer("yarn")
    with pytest.raises(SparkError, match=r"^No Spark master can be reached at yarn: Connection refused\. "):
        must_answer("yarn")
