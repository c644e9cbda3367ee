"""The answers of a cluster as a file: what is written is read again, and what cannot be used is said in a sentence."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.cluster_answers import (
    BrokerAnswer,
    CapturedAnswers,
    ClusterAnswers,
    CommittedAnswer,
    ConfigAnswer,
    GroupAnswer,
    PartitionAnswer,
    ProducerAnswer,
    TopicAnswer,
    TransactionAnswer,
    from_json,
    to_json,
)
from tidegauge.snapshots.errors import SnapshotError

ANSWERS = ClusterAnswers(
    started_at_ms=1_795_254_120_000,
    finished_at_ms=1_795_254_121_000,
    cluster_id="sw-frMLZTnKx8IpxuJyD-w",
    controller_id=3,
    brokers=(
        BrokerAnswer(
            broker_id=1,
            host="localhost",
            port=9092,
            rack=None,
            configs={"min.insync.replicas": ConfigAnswer(value="2", source="static")},
        ),
        BrokerAnswer(broker_id=2, host="localhost", port=9093, rack="b", configs=None, errors={"configs": "timed out"}),
    ),
    topics=(
        TopicAnswer(
            topic="orders",
            topic_id="gk1Jk7VrQum5tnWJY8S_ng",
            partitions=(
                PartitionAnswer(
                    partition=0,
                    leader_id=1,
                    leader_epoch=4,
                    replicas=(1, 2),
                    isr=(1,),
                    log_start_offset=0,
                    high_watermark=200,
                    last_stable_offset=None,
                    producers=(
                        ProducerAnswer(
                            producer_id=1000,
                            producer_epoch=0,
                            last_sequence=29,
                            last_timestamp_ms=1,
                            coordinator_epoch=None,
                            current_transaction_first_offset=22,
                        ),
                    ),
                    errors={"last_stable_offset": "timed out"},
                ),
            ),
            configs={"retention.ms": ConfigAnswer(value=None, source="topic", sensitive=True)},
        ),
    ),
    groups=(
        GroupAnswer(
            group="billing",
            type="classic",
            state="empty",
            members=0,
            offsets=(CommittedAnswer(topic="orders", partition=0, offset=7, leader_epoch=4, metadata="by hand"),),
            offsets_partition=2,
        ),
        GroupAnswer(group="shared", type="share", state=None, members=None, offsets=None),
    ),
    transactions=(
        TransactionAnswer(
            transactional_id="pay-1",
            state="Ongoing",
            producer_id=1000,
            producer_epoch=0,
            timeout_ms=60000,
            started_at_ms=5,
            partitions=(TopicPartition("orders", 0),),
            state_partition=1,
        ),
    ),
    asked_at_ms={"offsets": 1_795_254_120_100},
    unanswered={"racks": "not supported"},
)


def test_what_is_written_is_read_again() -> None:
    for kept in (
        CapturedAnswers(before=ANSWERS, after=replace(ANSWERS, groups=None, transactions=None)),
        CapturedAnswers(before=None, after=ANSWERS),
    ):
        assert from_json(to_json(kept), where="here") == kept


def test_a_sensitive_value_in_the_file_is_not_taken_up() -> None:
    value = json.loads(to_json(CapturedAnswers(before=ANSWERS, after=None)))
    value["before"]["topics"][0]["configs"]["retention.ms"]["value"] = "secret"
    read = from_json(json.dumps(value), where="here").before
    assert read is not None
    assert read.topics[0].configs == ANSWERS.topics[0].configs


def test_names_are_replaced_everywhere() -> None:
    hidden = CapturedAnswers(before=ANSWERS, after=ANSWERS).renamed(
        topic=lambda name: f"t-{len(name)}", identifier=lambda name: f"n-{len(name)}"
    )
    text = to_json(hidden)
    for name in ("orders", "billing", "pay-1", "by hand"):
        assert name in to_json(CapturedAnswers(before=ANSWERS, after=None))
        assert name not in text
    assert hidden.before is not None
    assert hidden.before.topics[0].partitions == ANSWERS.topics[0].partitions


def test_names_in_a_reason_are_replaced_too() -> None:
    said = {"producers": "TopicAuthorizationFailedError: {'orders'}, orders-0 and preorders of group billing."}
    hidden = replace(ANSWERS, unanswered=said, topics=(replace(ANSWERS.topics[0], errors=said),)).renamed(
        topic=lambda name: f"t-{len(name)}", identifier=lambda name: f"n-{len(name)}"
    )
    expected = {"producers": "TopicAuthorizationFailedError: {'t-6'}, t-6-0 and preorders of group n-7."}
    assert (hidden.unanswered, hidden.topics[0].errors) == (expected, expected)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "JSONDecodeError"),
        ("[]", "TypeError"),
        ("{}", "schema_version"),
        ('{"schema_version": 1}', "before"),
        ('{"schema_version": 2, "before": null, "after": null}', "schema version 2"),
        ('{"schema_version": 1, "before": 7, "after": null}', "TypeError"),
        ("[" * 100_000, "RecursionError"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(SnapshotError, match=f"cluster-answers.json.*{says}"):
        from_json(text, where="s1/cluster-answers.json")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("started_at_ms",), -1),
        (("finished_at_ms",), 1 << 62),
        (("asked_at_ms", "groups"), 1 << 62),
        (("cluster_id",), "half \udcff"),
        (("brokers", 0, "broker_id"), 1 << 31),
        (("brokers", 0, "rack"), "half \udcff"),
        (("topics", 0, "partitions", 0, "leader_epoch"), -(1 << 31) - 1),
        (("topics", 0, "partitions", 0, "high_watermark"), 1 << 63),
        (("groups", 0, "group"), "half \udcff"),
        (("groups", 0, "offsets", 0, "offset"), 1 << 63),
        (("groups", 0, "offsets", 0, "partition"), 1 << 31),
    ],
    ids=str,
)
def test_what_no_cluster_can_answer_is_refused(path: tuple[Any, ...], value: object) -> None:
    """No fact has room for it."""
    whole: Any = json.loads(to_json(CapturedAnswers(before=None, after=ANSWERS)))
    at = whole["after"]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(SnapshotError, match=r"cluster-answers\.json does not hold .*(whole number from|surrogates)"):
        from_json(json.dumps(whole), where="cluster-answers.json")


@given(st.data())
def test_any_value_in_the_wrong_place_is_an_error_or_another_value_but_never_a_crash(data: st.DataObject) -> None:
    value: Any = json.loads(to_json(CapturedAnswers(before=ANSWERS, after=ANSWERS)))
    at = value["before"]
    while isinstance(at, dict | list) and at:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            at[key] = data.draw(st.one_of(st.none(), st.integers(), st.text(max_size=3), st.just([]), st.just([[]])))
            break
        at = at[key]
    try:
        read = from_json(json.dumps(value), where="here")
    except SnapshotError:
        return
    assert from_json(to_json(read), where="here") == read
