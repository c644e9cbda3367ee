"""A client library that ends its process: a capture must outlive it, and say what happened."""

import pytest

from tidegauge.snapshots.ask_apart import ask_apart
from tidegauge.snapshots.client_config import ClientConfig
from tidegauge.snapshots.errors import ClusterError

ABORTS = """
import os
class KafkaException(Exception): pass
class admin:
    @staticmethod
    def AdminClient(*_, **__):
        with open({tries!r}, "a") as file:
            file.write("x")
        print("noise on standard output", flush=True)
        os.abort()
"""


@pytest.mark.slow
def test_who_cannot_be_reached_is_told_as_without_a_second_process(nobody: str) -> None:
    with pytest.raises(ClusterError, match=rf"No broker of {nobody} answers within .*capture without --bootstrap"):
        ask_apart(nobody, ClientConfig())


def test_settings_arrive_and_no_secret_is_in_what_is_said(nobody: str) -> None:
    config = ClientConfig(librdkafka={"no.such.property": "hunter2"})
    with pytest.raises(ClusterError, match=r"settings are refused .*no\.such\.property") as raised:
        ask_apart(nobody, config)
    assert "hunter2" not in str(raised.value)


def test_an_abort_of_the_library_ends_another_process_and_is_tried_again(tmp_path, monkeypatch) -> None:
    package = tmp_path / "confluent_kafka"
    package.mkdir()
    (package / "__init__.py").write_text(ABORTS.format(tries=str(tmp_path / "tries")))
    (package / "admin.py").write_text("from confluent_kafka import admin\nAdminClient = admin.AdminClient\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ClusterError, match=r"ended with signal 6: .*what was copied is kept"):
        ask_apart("127.0.0.1:1", ClientConfig())
    assert (tmp_path / "tries").read_text() == "xxx"
