"""What a cluster answered beside what its metadata log and its coordinators' logs say, question by question."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.facts.metadata_logs import TOPIC_ID, change, orders, record
from tidegauge.facts.answers.answers import Recomputed, cluster_answer_rows
from tidegauge.facts.answers.asked import MARGIN_MS
from tidegauge.facts.metadata.history import LoggedRecord, MetadataHistory
from tidegauge.facts.metadata.replay import replay
from tidegauge.kafka_log.coordinator_records import OffsetCommit, TransactionState
from tidegauge.kafka_log.metadata_records import MetadataRecord
from tidegauge.relations import ClusterAnswerRow
from tidegauge.snapshots.cluster_answers import (
    BrokerAnswer,
    CapturedAnswers,
    ClusterAnswers,
    CommittedAnswer,
    ConfigAnswer,
    GroupAnswer,
    PartitionAnswer,
    TopicAnswer,
    TransactionAnswer,
)

AT_MS = 1_000_000
OTHER_ID = "u" * 22
NO_OP = record("NoOpRecord")
STATE = "leader 1, replicas [1, 2, 3], ISR [1, 2, 3]"


def history(
    *records: MetadataRecord, at_ms: int = AT_MS - 60_000, later: Iterable[MetadataRecord] = ()
) -> MetadataHistory:
    """A metadata log that was written long ago, has something written at the answers, and goes on behind them."""
    written = [*((r, at_ms) for r in records), *((r, AT_MS) for r in later), (NO_OP, AT_MS + 9_000)]
    return replay(LoggedRecord(offset=n, timestamp_ms=at, record=r) for n, (r, at) in enumerate(written))


def registered(broker_id: int, rack: str | None = None) -> MetadataRecord:
    return record("RegisterBrokerRecord", broker_id=broker_id, rack=rack, broker_epoch=broker_id)


def config(resource: int, name: str, key: str, value: str | None) -> MetadataRecord:
    return record("ConfigRecord", resource_type=resource, resource_name=name, name=key, value=value)


PARTITION = PartitionAnswer(
    partition=0,
    leader_id=1,
    leader_epoch=0,
    replicas=(1, 2, 3),
    isr=(1, 2, 3),
    log_start_offset=0,
    high_watermark=0,
    last_stable_offset=0,
    producers=(),
)
TOPIC = TopicAnswer(topic="orders", topic_id=TOPIC_ID, partitions=(PARTITION,), configs={})
BROKER = BrokerAnswer(broker_id=1, host="h", port=1, rack="a", configs={})
ROUND = ClusterAnswers(
    started_at_ms=AT_MS,
    finished_at_ms=AT_MS + 500,
    cluster_id="c",
    controller_id=1,
    brokers=(BROKER,),
    topics=(TOPIC,),
    groups=(),
    transactions=(),
)
LATER = {"started_at_ms": AT_MS + 2_000, "finished_at_ms": AT_MS + 2_500}


def asked(after: dict[str, Any] | None = None, **fields: Any) -> CapturedAnswers:
    """Twice the same answer, but for what is named for the second one."""
    before = replace(ROUND, **fields)
    return CapturedAnswers(before=before, after=replace(before, **LATER, **(after or {})))


def rows(answers: CapturedAnswers, metadata: MetadataHistory | None = None, **files: Any) -> list[ClusterAnswerRow]:
    known = Recomputed(
        **{
            "history": metadata if metadata is not None else history(*orders(), registered(1, "a")),
            "cluster_ids": {1: "c"},
            "commits": {},
            "transactions": (),
            "led_copies": {("__consumer_offsets", 0), ("__transaction_state", 0)},
            "replaced_transaction_states": {},
            "replicated": set(),
            "waiting_commits": set(),
            "forgotten_commits": set(),
            "unreadable": set(),
            **files,
        }
    )
    return cluster_answer_rows(answers, known)


def one(kind: str, found: list[ClusterAnswerRow]) -> ClusterAnswerRow:
    (row,) = [row for row in found if row["kind"] == kind]
    return row


def said(row: ClusterAnswerRow) -> tuple[Any, ...]:
    return row["answered_before_text"], row["answered_after_text"], row["recomputed_values"], row["incomparable_reason"]


def test_a_sound_cluster_is_what_its_metadata_log_says() -> None:
    found = rows(asked())
    assert said(one("cluster_id", found)) == ("c", "c", ["c"], None)
    assert said(one("broker", found)) == ("rack a", "rack a", ["rack a"], None)
    assert said(one("topic", found)) == (TOPIC_ID, TOPIC_ID, [TOPIC_ID], None)
    assert said(one("leadership", found)) == (STATE, STATE, [STATE], None)


def test_a_metadata_log_that_may_end_before_the_answer_decides_nothing() -> None:
    ended = replay([LoggedRecord(offset=n, timestamp_ms=AT_MS, record=r) for n, r in enumerate(orders())])
    reasons = {one(kind, rows(asked(), ended))["incomparable_reason"] for kind in ("broker", "topic", "leadership")}
    assert reasons == {"metadata log ends before the answer"}


def test_a_last_answer_that_the_metadata_log_does_not_reach_is_not_held_against_it() -> None:
    elected = replace(PARTITION, leader_id=2, leader_epoch=1)
    answers = asked({"topics": (replace(TOPIC, partitions=(elected,)),)})
    assert one("leadership", rows(answers))["incomparable_reason"] is None
    short = replay(LoggedRecord(offset=n, timestamp_ms=AT_MS + 600, record=r) for n, r in enumerate(orders()))
    assert one("leadership", rows(answers, short))["incomparable_reason"] == "changed while copying"


def test_states_that_ended_long_before_the_answers_are_forgotten() -> None:
    moved = [*orders(), change(isr=(1,)), change(isr=(1, 2))]
    old = history(*moved, at_ms=AT_MS - 3_600_000)
    assert one("leadership", rows(asked(), old))["recomputed_values"] == ["leader 1, replicas [1, 2, 3], ISR [1, 2]"]
    fresh = history(*moved, at_ms=AT_MS - 60_000)
    assert len(one("leadership", rows(asked(), fresh))["recomputed_values"]) == 3


def test_an_answer_about_a_topic_that_was_deleted_and_made_again_is_held_against_its_own_history() -> None:
    topic, partition = orders(leader=2, isr=(2, 3))
    again = [
        record("TopicRecord", name="orders", topic_id="u" * 22),
        record("PartitionRecord", **{**partition.fields, "topic_id": "u" * 22, "leader": 1, "isr": (1, 2, 3)}),
    ]
    made_again = history(topic, partition, record("RemoveTopicRecord", topic_id=TOPIC_ID), *again)
    old = replace(PARTITION, leader_id=2, isr=(2, 3))
    answers = asked({"topics": (replace(TOPIC, topic_id="u" * 22),)}, topics=(replace(TOPIC, partitions=(old,)),))
    row = one("leadership", rows(answers, made_again))
    assert row["recomputed_values"] == ["leader 2, replicas [1, 2, 3], ISR [2, 3]", STATE]
    # Who answers with the new topic's id only is not excused by the old one.
    fresh = one("leadership", rows(asked(topics=(replace(TOPIC, topic_id="u" * 22),)), made_again))
    assert fresh["recomputed_values"] == [STATE]
    # Unless that one went while it was asked: leaders are asked first, and what they told may be the old one's.
    made_again.lives("orders")[0].deleted_at_ms = AT_MS
    mixed = one("leadership", rows(asked(topics=(replace(TOPIC, topic_id="u" * 22),)), made_again))
    assert mixed["recomputed_values"] == row["recomputed_values"]


def test_a_topic_that_nobody_answered_is_unknown_and_one_that_nobody_created_has_no_id() -> None:
    found = rows(asked(topics=(replace(TOPIC, topic="ghost"),)))
    by_topic = {row["topic"]: said(row) for row in found if row["kind"] == "topic"}
    assert by_topic["orders"] == (None, None, [TOPIC_ID], "no answer")
    assert by_topic["ghost"] == (TOPIC_ID, TOPIC_ID, [], None)


def test_a_broker_that_is_not_registered_has_no_value() -> None:
    assert said(one("broker", rows(asked(), history(*orders())))) == ("rack a", "rack a", [], None)


@pytest.mark.parametrize(
    ("answered", "stored", "expected"),
    [
        (ConfigAnswer(value="1000", source="topic"), "1000", ("1000", ["1000"], None)),
        (ConfigAnswer(value="a,b", source="topic"), "a, b", ("a,b", ["a,b"], None)),
        (ConfigAnswer(value="0.5", source="topic"), "0.50", ("0.5", ["0.5"], None)),
        (ConfigAnswer(value="1000", source="topic"), None, ("1000", ["(not set)"], None)),
        (ConfigAnswer(value="1000", source="default"), "5", ("(not set)", ["5"], None)),
        (None, "5", (None, None, "not listed")),
    ],
)  # fmt: skip
def test_a_topics_setting(answered: ConfigAnswer | None, stored: str | None, expected: tuple[Any, ...]) -> None:
    configs = {} if answered is None else {"some.setting": answered}
    metadata = history(*orders(), registered(1, "a"), config(2, "orders", "some.setting", stored))
    row = one("topic_config", rows(asked(topics=(replace(TOPIC, configs=configs),)), metadata))
    assert (row["answered_after_text"], row["recomputed_values"], row["incomparable_reason"]) == expected


def test_a_setting_that_was_changed_meanwhile_is_not_compared() -> None:
    topics = (replace(TOPIC, configs={"retention.ms": ConfigAnswer(value="1", source="topic")}),)
    metadata = history(*orders(), later=[config(2, "orders", "retention.ms", "2")])
    assert one("topic_config", rows(asked(topics=topics), metadata))["incomparable_reason"] == "changed while copying"


def test_a_sensitive_setting_is_never_in_a_row() -> None:
    configs = {"ssl.keystore.password": ConfigAnswer(value=None, source="broker", sensitive=True)}
    metadata = history(registered(1, "a"), config(4, "1", "ssl.keystore.password", "hush"))
    found = rows(asked(brokers=(replace(BROKER, configs=configs),)), metadata)
    assert "hush" not in repr(found)
    unlisted = rows(asked(), metadata)
    assert "hush" not in repr(unlisted)


def test_a_setting_of_all_brokers_that_one_of_them_overrides_is_not_looked_for_there() -> None:
    own = {"log.cleaner.threads": ConfigAnswer(value="3", source="broker")}
    metadata = history(
        registered(1, "a"), config(4, "", "log.cleaner.threads", "2"), config(4, "1", "log.cleaner.threads", "3")
    )
    row = one("broker_config", rows(asked(brokers=(replace(BROKER, configs=own),)), metadata))
    assert said(row) == ("3", "3", ["3"], None)


# -------------------------------------------------------------------------------------------------------- coordinators


def commit(offset: int = 7, at_ms: int = 5) -> dict[tuple[str, int], tuple[OffsetCommit, ...]]:
    return {
        ("orders", 0): (
            OffsetCommit(
                group="g", topic="orders", partition=0, offset=offset, leader_epoch=0, commit_timestamp_ms=at_ms,
                topic_id=None, version=4, tombstone=False,
            ),
        )
    }  # fmt: skip


WAITING = {("g", "orders", 0)}


def groups(*offsets: int) -> tuple[GroupAnswer, ...]:
    committed = tuple(
        CommittedAnswer(topic="orders", partition=0, offset=o, leader_epoch=None, metadata=None) for o in offsets
    )
    return (GroupAnswer(group="g", type="classic", state=None, members=0, offsets=committed, offsets_partition=0),)


@pytest.mark.parametrize(
    ("answers", "files", "reason"),
    [
        (asked(groups=groups(7)), {"commits": commit()}, None),
        (asked(groups=groups(7)), {}, None),
        (asked({"groups": groups()}, groups=groups(7)), {"commits": commit()}, "changed while copying"),
        (asked(groups=groups(7)), {"commits": commit(8, AT_MS + 5)}, "changed while copying"),
        (asked(groups=groups(7)), {"commits": commit(), "led_copies": set()}, "coordinator not captured"),
        (asked(groups=groups(7)), {"unreadable": {"__consumer_offsets"}}, "records unreadable"),
        # A leader that nobody follows has the commit in its log; the group is answered what the ISR has.
        (
            asked(groups=groups(7)),
            {"commits": commit(9), "waiting_commits": WAITING},
            "last record may not be replicated",
        ),
        (asked(groups=groups(7)), {"waiting_commits": WAITING}, "last record may not be replicated"),
        # Deleted, copied, and there again with another offset.
        (asked({"groups": groups(9)}, groups=groups(7)), {"forgotten_commits": WAITING}, "changed while copying"),
        (asked({"groups": groups(9)}, groups=groups(7)), {}, None),
        (asked(groups=groups(7)), {"forgotten_commits": WAITING}, None),
        (CapturedAnswers(before=None, after=replace(ROUND, groups=groups(7))), {"commits": commit()}, "asked once"),
    ],
)
def test_a_committed_offset(answers: CapturedAnswers, files: dict[str, Any], reason: str | None) -> None:
    row = one("committed_offset", rows(answers, **files))
    assert row["incomparable_reason"] == reason
    assert row["recomputed_lowest"] == (files["commits"]["orders", 0][0].offset if "commits" in files else None)


def transaction(state: str = "Ongoing", epoch: int | None = 4) -> TransactionAnswer:
    return TransactionAnswer(
        transactional_id="pay",
        state=state,
        producer_id=9,
        producer_epoch=epoch,
        timeout_ms=1,
        started_at_ms=1,
        partitions=(),
        state_partition=0,
    )


def stored(state: str = "Ongoing", last_update_ms: int = 5) -> TransactionState:
    return TransactionState(
        transactional_id="pay",
        producer_id=9,
        producer_epoch=4,
        previous_producer_id=None,
        next_producer_id=None,
        timeout_ms=60_000,
        state=state,
        partitions=(),
        last_update_ms=last_update_ms,
        start_ms=1,
        client_transaction_version=None,
        tombstone=False,
    )


JUST_DECIDED = stored("PrepareCommit", AT_MS - MARGIN_MS - 1_000)


@pytest.mark.parametrize(
    ("answers", "files", "reason"),
    [
        (asked(transactions=(transaction(),)), {"transactions": (stored(),)}, None),
        (asked(transactions=(transaction(),)), {"transactions": ()}, None),
        (asked(transactions=(transaction(epoch=None),)), {"transactions": (stored(),)}, "no answer"),
        (
            asked({"transactions": (transaction("CompleteCommit"),)}, transactions=(transaction(),)),
            {"transactions": (stored(),)},
            "changed while copying",
        ),
        (asked(transactions=(transaction(),)), {"transactions": (stored("Empty", AT_MS),)}, "changed while copying"),
        # A coordinator changes its mind once the ISR has the record: until then its log is one step ahead.
        (asked(transactions=(transaction(),)), {"transactions": (JUST_DECIDED,)}, "last record may not be replicated"),
        (
            asked(transactions=(transaction(),)),
            {"transactions": (JUST_DECIDED,), "replicated": {("__transaction_state", 0)}},
            None,
        ),
        # One that the ISR had too late stays in the log, and the coordinator does not know of it.
        *(
            (
                asked(transactions=(transaction(),)),
                {"transactions": (decided,), "replicated": replicated},
                "last record may never have counted",
            )
            for replicated in (set(), {("__transaction_state", 0)})
            for decided in (stored("PrepareCommit", AT_MS - 9_000), replace(JUST_DECIDED, timeout_ms=500))
        ),
        (
            asked(transactions=(transaction(),)),
            {
                "transactions": (stored("PrepareCommit", 5),),
                "replaced_transaction_states": {"pay": stored("Ongoing")},
            },
            "last record may never have counted",
        ),
        # But what it answers then is what stands before that in its log.
        (
            asked(transactions=(transaction("CompleteCommit"),)),
            {"transactions": (stored(),), "replaced_transaction_states": {"pay": stored("Empty")}},
            None,
        ),
        (asked(transactions=(transaction(),)), {"transactions": (stored("CompleteCommit", AT_MS - 9_000),)}, None),
        (asked(transactions=(transaction(),)), {"led_copies": set()}, "coordinator not captured"),
    ],
)
def test_a_transaction(answers: CapturedAnswers, files: dict[str, Any], reason: str | None) -> None:
    row = one("transaction", rows(answers, **files))
    assert row["incomparable_reason"] == reason
    assert row["recomputed_values"] == [f"{t.state}, producer id 9, epoch 4" for t in files.get("transactions", ())]


@pytest.mark.parametrize(
    ("behind_ms", "reason"), [(0, None), (30_000, "changed while copying"), (-30_000, "changed while copying")]
)
def test_what_a_cluster_writes_whose_clock_is_not_the_askers_may_have_come_while_it_was_copied(
    behind_ms: int, reason: str | None
) -> None:
    """Once at the end of the metadata log's copy, a second before the second answers, and once half a minute before."""
    log = (LoggedRecord(offset=n, timestamp_ms=at, record=NO_OP) for n, at in enumerate((1, AT_MS + 1_000 - behind_ms)))
    at_ms = AT_MS - 20_000 if behind_ms >= 0 else AT_MS + 30_000
    state = stored("CompleteCommit", at_ms)
    row = one("transaction", rows(asked(transactions=(transaction(),)), replay(log), transactions=(state,)))
    assert row["incomparable_reason"] == reason


UNWRITTEN = asked(transactions=(transaction("Empty", epoch=-1),))


def test_a_transactional_id_that_its_coordinator_could_not_write_down_yet_is_not_in_its_log() -> None:
    row = one("transaction", rows(UNWRITTEN, transactions=()))
    assert (row["comparable"], row["recomputed_values"]) == (True, ["Empty, producer id 9, epoch -1"])


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (replace(stored("Empty", 5), producer_epoch=0), "last record may never have counted"),
        (replace(stored("Empty", 5), producer_epoch=0, producer_id=10), None),
        (stored("Empty", 5), None),
        (replace(stored("Ongoing", 5), producer_epoch=0), None),
    ],
)
def test_all_that_its_log_may_have_is_a_first_record_that_never_counted(
    written: TransactionState, reason: str | None
) -> None:
    row = one("transaction", rows(UNWRITTEN, transactions=(written,)))
    assert row["incomparable_reason"] == reason
    assert row["answered_before_text"] not in row["recomputed_values"]


def test_a_question_that_nobody_answered_has_a_row_of_its_own() -> None:
    answers = asked(unanswered={"producers": "not asked: no such client", "groups": "broker 2: timed out"})
    found = {row["kind"]: (row["incomparable_reason"], row.get("error")) for row in rows(answers)}
    assert found["producer"] == ("not asked", "not asked: no such client")
    assert found["committed_offset"] == ("no answer", "broker 2: timed out")
    assert "transaction" not in found
