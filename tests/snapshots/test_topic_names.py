"""Names under a keyed hash."""

import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.kafka_log.internal_topics import INTERNAL_TOPICS
from tidegauge.kafka_log.log_dir import parse_partition_dir
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.topic_names import TopicNames

NAMES = TopicNames(b"one key for all brokers")
_TOPIC = st.from_regex(r"[A-Za-z0-9._-]{1,60}", fullmatch=True).filter(lambda t: t not in (".", ".."))


@given(_TOPIC)
def test_a_hashed_name_is_a_topic_name_that_says_nothing(topic: str) -> None:
    hashed = NAMES.hashed(topic)
    parsed = parse_partition_dir(f"{hashed}-0")
    assert parsed is not None
    assert parsed.topic == hashed
    assert len(hashed) == 18
    assert (
        hashed
        == TopicNames(b"one key for all brokers").hashed(topic)
        == pickle.loads(pickle.dumps(NAMES)).hashed(topic)
    )
    assert hashed != TopicNames(b"another key").hashed(topic)


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
def test_kafkas_own_topics_keep_their_names(topic: str) -> None:
    assert NAMES.hashed(topic) == topic
    assert NAMES.path(f"{topic}-3/00000000000000000000.log") == f"{topic}-3/00000000000000000000.log"


def test_only_kafkas_own_do() -> None:
    assert NAMES.hashed("__my_offsets").startswith("t-")


def test_a_topic_and_a_group_of_one_name_do_not_tell_of_each_other() -> None:
    assert NAMES.hashed("orders")[2:] != NAMES.identifier("orders")[2:]
    assert NAMES.identifier("") == NAMES.hashed("") == ""


@pytest.mark.parametrize(
    "rest",
    ["-0/a.log", "-12", "-7.0123456789abcdef0123456789abcdef-delete/b", "-7.0123456789abcdef0123456789abcdef-future"],
)
def test_a_path_keeps_all_but_the_topic(rest: str) -> None:
    assert NAMES.path("orders-eu-1" + rest) == NAMES.hashed("orders-eu-1") + rest


def test_what_is_no_partition_directory_keeps_its_name_unless_nobody_knows_what_it_is() -> None:
    assert NAMES.path("meta.properties") == "meta.properties"
    hidden = NAMES.unknown_path("orders-0/orders.log.bak")
    assert hidden.startswith(NAMES.hashed("orders") + "-0/n-")
    assert "orders" not in NAMES.unknown_path("orders.tar") + NAMES.unknown_path("backup/orders-0/x") + hidden


def test_a_key_file_is_its_bytes_without_the_line_end(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"0123456789abcdef\n")
    assert TopicNames.of_key_file(tmp_path / "key").hashed("a") == TopicNames(b"0123456789abcdef").hashed("a")


@pytest.mark.parametrize("content", [None, b"", b"short\n"])
def test_a_file_that_is_no_key_is_refused_with_a_way_to_make_one(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SnapshotError, match=r"head -c 32 /dev/urandom") as raised:
        TopicNames.of_key_file(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("kind", ["pipe", "huge"])
def test_no_pipe_is_waited_for_and_nothing_without_end_is_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(b"x" * 100_000)
    with pytest.raises(SnapshotError, match=r"no regular file|so it is no key"):
        TopicNames.of_key_file(path)


def test_two_random_keys_differ() -> None:
    assert TopicNames.of_random_key().hashed("a") != TopicNames.of_random_key().hashed("a")
