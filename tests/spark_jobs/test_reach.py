"""A master that is not there is one sentence, and soon."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tidegauge.runs.errors import SparkError
from tidegauge.spark_jobs.reach import addresses, must_answer, registering

STARTS = """
import sys
from tidegauge.runs.errors import SparkError
from tidegauge.spark_jobs import session
try:
    session.start(sys.argv[1])
except SparkError as error:
    print(error)
"""


@pytest.fixture
def deaf() -> Iterator[str]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("master", "found"),
    [
        ("spark://a:7077", [("a", 7077)]),
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("k8s://https://api:6443", [("api", 6443)]),
        ("k8s://https://api", [("api", 443)]),
        ("k8s://http://api", [("api", 80)]),
        ("k8s://api:6443", [("api", 6443)]),
        ("local[2]", []),
        ("spark://a", []),
        ("spark://a:x", []),
        ("spark://", []),
        ("spark://[", []),
    ],
)
def test_where_a_master_is(master: str, found: list[tuple[str, int]]) -> None:
    assert addresses(master) == found


def test_one_that_takes_a_connection_is_enough(deaf: str, nobody: str) -> None:
    must_answer(f"spark://{nobody},{deaf}")
    must_answer(f"k8s://https://{deaf}")


@pytest.mark.parametrize("scheme", ["spark://", "k8s://https://"])
def test_nobody_there_is_told_at_once(scheme: str, nobody: str) -> None:
    with pytest.raises(
        SparkError, match=rf"^No Spark master can be reached at {scheme}{nobody}: Connection refused\. "
    ):
        must_answer(f"{scheme}{nobody}")


def test_a_name_that_nobody_knows_is_told() -> None:
    with pytest.raises(SparkError, match=r"no\.such\.host\.invalid:7077: .*[Nn]ame"):
        must_answer("spark://no.such.host.invalid:7077")


def test_other_masters_get_the_time_that_they_take() -> None:
    with pytest.raises(ZeroDivisionError), registering("yarn", give_up=lambda: None):
        raise ZeroDivisionError


@pytest.mark.slow
@pytest.mark.jvm
def test_what_answers_and_is_no_master_is_given_up_and_leaves_no_process(deaf: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTS, f"spark://{deaf}"], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.startswith(f"What answers at spark://{deaf} took no application within ")
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
