"""Asking a cluster that is not there, and how a name finds its coordinator. Real answers are under `real_kafka`."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tidegauge.snapshots.ask import ask, connect
from tidegauge.snapshots.ask_producers import ask_producers_and_transactions
from tidegauge.snapshots.client_config import ClientConfig
from tidegauge.snapshots.errors import ClusterError


@pytest.fixture
def silence() -> Iterator[str]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def take() -> None:
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for connection in kept:
            connection.close()


@pytest.mark.parametrize("question", [connect, ask])
def test_a_cluster_that_is_not_there_is_an_error_in_one_paragraph(
    question: object, nobody: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert callable(question)
    with pytest.raises(ClusterError) as raised:
        question(nobody, timeout_s=1)
    text = str(raised.value)
    assert nobody in text
    assert "--bootstrap" in text
    assert "\n" not in text
    assert capfd.readouterr() == ("", "")


def test_a_server_that_says_nothing_is_given_up(silence: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ClusterError, match=r"No broker of 127\.0\.0\.1"):
        connect(silence, timeout_s=1)
    assert capfd.readouterr() == ("", "")


def test_settings_that_librdkafka_refuses_are_named_without_their_values(nobody: str) -> None:
    config = ClientConfig(librdkafka={"sasl.mechanism": "PLAIN", "no.such.setting": "hush"})
    with pytest.raises(ClusterError, match=r"no\.such\.setting") as raised:
        connect(nobody, config, timeout_s=1)
    assert "hush" not in str(raised.value)
    assert "--client-config" in str(raised.value)


def test_producers_that_cannot_be_asked_leave_a_reason(nobody: str, capfd: pytest.CaptureFixture[str]) -> None:
    producers, transactions, unanswered, _ = ask_producers_and_transactions(
        nobody, ClientConfig(), leaders={("orders", 0): 1}, brokers=[1], timeout_s=1
    )
    assert (producers, transactions) == ({}, None)
    assert unanswered.keys() == {"producers", "transactions"}
    assert all(unanswered.values())
    assert capfd.readouterr() == ("", "")


def test_a_way_in_that_only_librdkafka_knows_is_not_tried(nobody: str) -> None:
    config = ClientConfig(only_librdkafka=("sasl.oauthbearer.method",))
    _, _, unanswered, _ = ask_producers_and_transactions(
        nobody, config, leaders={("orders", 0): 1}, brokers=[1], timeout_s=1
    )
    assert unanswered["producers"] == "not asked: this client knows no sasl.oauthbearer.method"
