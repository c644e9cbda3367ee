"""The small files of a log dir: real ones against what is known of their clusters, and what cannot be right."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka_log.captures import CAPTURES
from tidegauge.kafka_log.corruption import Damage
from tidegauge.kafka_log.log_dir import parse_partition_dir
from tidegauge.kafka_log.properties import (
    CleanShutdown,
    MetaProperties,
    PartitionMetadata,
    QuorumState,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
)

Golden = Callable[[str], Path]
DIRECTORIES_OF_EPOCHS = {"1": "aQ--xhJIGEwYTUKjelWj2w", "2": "ybZC4PoUR-q_I4RYxxgWIA", "3": "xCfADkOaXQmXdiqUlDqvGA"}
PARSERS = [parse_meta_properties, parse_partition_metadata, parse_quorum_state, parse_clean_shutdown]


@pytest.mark.parametrize("capture", CAPTURES)
def test_meta_properties_say_which_broker_and_which_cluster(golden: Golden, capture: str) -> None:
    truth = json.loads((golden(capture) / "GROUND_TRUTH.json").read_text())
    for broker, directory_id in truth["directory_ids"].items():
        if capture == "epochs":  # a static quorum: each broker chose its own when it was formatted
            directory_id = DIRECTORIES_OF_EPOCHS[broker]
        assert parse_meta_properties((golden(capture) / f"broker-{broker}/meta.properties").read_bytes()) == (
            MetaProperties(
                version=1,
                node_id=int(broker),
                directory_id=directory_id,
                cluster_id=truth["cluster_id"],
                corruptions=(),
            )
        )


@pytest.mark.parametrize("capture", [name for name in CAPTURES if name != "soak-01"])  # nobody asked that cluster
def test_partition_metadata_say_the_topic_id_that_the_cluster_says(golden: Golden, capture: str) -> None:
    topics = json.loads((golden(capture) / "GROUND_TRUTH.json").read_text())["probe_at_capture"]["topics"]
    compared = 0
    for file in golden(capture).glob("broker-*/*/partition.metadata"):
        parsed = parse_partition_metadata(file.read_bytes())
        named = parse_partition_dir(file.parent.name)
        assert named is not None
        assert (parsed.version, parsed.corruptions) == (0, ())
        if named.state == "live" and named.topic in topics:
            assert parsed.topic_id == topics[named.topic]["topic_id"]
            compared += 1
    assert compared >= 21


@pytest.mark.parametrize("capture", CAPTURES)
def test_quorum_states_agree_on_the_last_epoch(golden: Golden, capture: str) -> None:
    for file in golden(capture).glob("broker-*/__cluster_metadata-0/quorum-state"):
        state, said = parse_quorum_state(file.read_bytes()), json.loads(file.read_bytes())
        assert state.corruptions == ()
        assert state.leader_epoch == said["leaderEpoch"] > 0
        assert state.data_version == (0 if "currentVoters" in said else 1)
        assert (state.leader_id, state.voted_id) == tuple(
            said[name] if said[name] >= 0 else None for name in ("leaderId", "votedId")
        )


def test_a_clean_shutdown_says_the_brokers_epoch(golden: Golden) -> None:
    epochs = [parse_clean_shutdown(f.read_bytes()) for f in golden("epochs").glob("broker-*/.kafka_cleanshutdown")]
    assert len(epochs) == 3
    assert all(e.version == 0 and e.broker_epoch is not None and e.broker_epoch > 0 for e in epochs)
    assert len({e.broker_epoch for e in epochs}) == 3


@pytest.mark.parametrize("data", [b"", b"\n"])
def test_an_empty_clean_shutdown_file_is_the_old_form(data: bytes) -> None:
    assert parse_clean_shutdown(data) == CleanShutdown(version=None, broker_epoch=None, corruptions=())


def test_properties_are_read_as_java_writes_them() -> None:
    data = b"#\n#Sat Nov 21 00:00:00 UTC 2026\nversion=1\r\nnode.id = 7\ncluster.id=abc\\=\\=\n\n!also a comment\n"
    assert parse_meta_properties(data) == MetaProperties(
        version=1, node_id=7, directory_id=None, cluster_id="abc==", corruptions=()
    )
    assert parse_meta_properties(b"version=0\nbroker.id=3\n").node_id == 3


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "version is missing"),
        (b"version=1\n", "node.id is missing"),
        (b"version=1\nnode.id=-1\n", "node.id is '-1'"),
        (b"version=1\nnode.id=2147483648\n", "node.id is '2147483648'"),
        (b"version=1\nnode.id=\xd9\xa3\n", "node.id is"),
        (b"version=one\nnode.id=1\n", "version is 'one'"),
        (b"version=1\nnode.id=1\nnonsense\n", "'nonsense' is no property"),
    ],
)
def test_meta_properties_that_cannot_be_right_say_why(data: bytes, why: str) -> None:
    assert any(why in c.detail and c.kind is Damage.FORM for c in parse_meta_properties(data).corruptions)


@pytest.mark.parametrize("topic_id", [b"", b"short", b"A" * 23, b"A" * 21 + b"!"])
def test_a_topic_id_is_twenty_two_characters(topic_id: bytes) -> None:
    parsed = parse_partition_metadata(b"version: 0\ntopic_id: " + topic_id + b"\n")
    assert parsed.topic_id is None
    assert [c.detail for c in parsed.corruptions] == ["no topic id"]
    good = parse_partition_metadata(b"version: 0\ntopic_id: p13zTvPyR7KtVSzmo8amCQ")
    assert good == PartitionMetadata(version=0, topic_id="p13zTvPyR7KtVSzmo8amCQ", corruptions=())


def test_no_leader_and_no_vote_are_none() -> None:
    data = b'{"leaderId":-1,"leaderEpoch":7,"votedId":-1,"data_version":1}'
    assert parse_quorum_state(data) == QuorumState(
        leader_id=None, leader_epoch=7, voted_id=None, data_version=1, corruptions=()
    )


@pytest.mark.parametrize(
    "value", [b'"x"', b"1.5", b"null", b"true", b"[]", b"{}", b"-2", b"2147483648", b"NaN", b"9" * 99]
)
def test_a_number_of_another_kind_is_damage(value: bytes) -> None:
    parsed = parse_quorum_state(b'{"leaderId":' + value + b',"leaderEpoch":3}')
    assert (parsed.leader_id, parsed.leader_epoch) == (None, 3)
    assert [c.kind for c in parsed.corruptions] == [Damage.VALUE]
    assert "leaderId" in parsed.corruptions[0].detail


@pytest.mark.parametrize("directory", [b'""', b'"\\udcff"', b'"AAAAAAAAAAAAAAAAAAAAAA "', b"7", b"[]"])
def test_a_vote_for_what_is_no_directory_is_damage(directory: bytes) -> None:
    parsed = parse_quorum_state(b'{"leaderEpoch":3,"votedDirectoryId":' + directory + b"}")
    assert (parsed.voted_directory_id, parsed.leader_epoch) == (None, 3)
    assert [(c.kind, c.detail) for c in parsed.corruptions] == [(Damage.VALUE, "votedDirectoryId is no directory's id")]


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"7", b"\xff\xfe", b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}"])
def test_what_is_no_json_object_is_damage(data: bytes) -> None:
    assert [c.kind for c in parse_quorum_state(data).corruptions] == [Damage.FORM]


def test_the_broker_epoch_has_sixty_four_bits() -> None:
    assert parse_clean_shutdown(b'{"version":0,"brokerEpoch":9223372036854775807}').broker_epoch == 2**63 - 1
    assert parse_clean_shutdown(b'{"version":0,"brokerEpoch":9223372036854775808}').broker_epoch is None


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["leaderId", "version", "x"]), inner),
    max_leaves=6,
)


@given(data=st.binary(max_size=120) | json_like.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_values_and_damage(data: bytes) -> None:
    for parse in PARSERS:
        parsed = parse(data)
        assert all(c.end_position <= len(data) for c in parsed.corruptions)
    assert parse_meta_properties(data).corruptions or b"node.id" in data or b"broker.id" in data
