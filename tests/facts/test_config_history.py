"""Settings have a history: what was in force when, and from when on anything is known of it."""

from typing import Any

import pytest

from tests.facts.logs import context as a_context
from tests.facts.metadata_logs import TOPIC_ID, a_log, change, orders, record
from tidegauge.facts.metadata.config_history import EVER, SettingCourse, Since
from tidegauge.facts.metadata.history import DamagedRecord, LoggedRecord
from tidegauge.facts.metadata.replay import replay
from tidegauge.facts.metadata.settings import Settings
from tidegauge.facts.metadata.upkeep_context import LogSettings, log_settings

TOPIC, BROKER = 2, 4
RETENTION = "retention.ms"
WEEK = "604800000"


def config(value: str | None, *, name: str = RETENTION, kind: int = TOPIC, resource: str = "orders") -> Any:
    return record("ConfigRecord", resource_type=kind, resource_name=resource, name=name, value=value)


def shared(value: str | None, *, broker: str = "", name: str = "log.retention.ms") -> Any:
    return config(value, name=name, kind=BROKER, resource=broker)


def course(log: list[Any], name: str = RETENTION, **given: Any) -> SettingCourse:
    return Settings(replay(log, **given), None).course("orders", name)


def values(found: SettingCourse, since: Since = EVER) -> list[str]:
    return [step.value for step in found.in_force(since)]


LOWERED = a_log([*orders(), config("-1"), config("1000"), config("-1"), config("5000")])
"""Records 0 to 5, one a second."""


def test_each_value_counts_from_the_record_that_set_it() -> None:
    steps = [(s.value, s.assumed, s.since_offset, s.since_ms) for s in course(LOWERED).steps]
    assert steps == [
        (WEEK, True, 0, 0),
        ("-1", False, 2, 2000),
        ("1000", False, 3, 3000),
        ("-1", False, 4, 4000),
        ("5000", False, 5, 5000),
    ]


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (EVER, [WEEK, "-1", "1000", "-1", "5000"]),
        (Since(offset=3), ["-1", "1000", "-1", "5000"]),
        (Since(offset=4), ["1000", "-1", "5000"]),
        (Since(offset=9), ["5000"]),
        (Since(at_ms=4500), ["-1", "5000"]),
        (Since(at_ms=99_000), ["5000"]),
        # What came while the earlier copy was taken is behind neither of the two.
        (Since(offset=9, at_ms=3500), ["1000", "-1", "5000"]),
        (Since(offset=3, at_ms=99_000), ["-1", "1000", "-1", "5000"]),
    ],
)
def test_what_was_in_force_since_then(since: Since, expected: list[str]) -> None:
    assert values(course(LOWERED), since) == expected


def test_what_a_topic_is_created_with_is_its_first_value() -> None:
    batch = [LoggedRecord(offset=at, timestamp_ms=0, record=r, batch_offset=0) for at, r in enumerate(orders())]
    own = LoggedRecord(offset=2, timestamp_ms=0, record=config("1000"), batch_offset=0)
    found = course([*batch, own])
    assert (values(found), found.whole, found.known()) == (["1000"], True, True)


def test_the_topics_own_goes_first_then_the_brokers_own_then_the_clusters() -> None:
    log = a_log([shared("70"), *orders(), shared("80"), config("10"), shared("90"), config(None), shared(None)])
    assert values(course(log)) == ["70", "80", "10", "90", WEEK]
    with_one = a_log([shared("70"), *orders(), shared("7", broker="2"), config("10"), shared(None, broker="2")])
    assert sorted(values(course(with_one))) == ["10", "10", "7", "70", "70"]
    assert sorted(values(course(with_one), Since(offset=9))) == ["10", "10"]


def test_a_deleted_topics_settings_are_not_its_successors() -> None:
    again = record("TopicRecord", name="orders", topic_id="u" * 22)
    gone = record("RemoveTopicRecord", topic_id=TOPIC_ID)
    log = a_log([*orders(), config("compact", name="cleanup.policy"), gone, again, config("1000")])
    assert not course(log, "cleanup.policy").ever("compact")
    assert values(course(log)) == [WEEK, "1000"]


def test_a_policy_may_name_two() -> None:
    log = a_log([*orders(), config("compact, delete", name="cleanup.policy"), config("delete", name="cleanup.policy")])
    found = course(log, "cleanup.policy")
    assert (found.ever("compact"), found.ever("compact", Since(offset=9))) == (True, False)


def test_the_clusters_default_policy_counts_too() -> None:
    log = a_log([shared("compact", name="log.cleanup.policy"), *orders(), shared(None, name="log.cleanup.policy")])
    assert course(log, "cleanup.policy").ever("compact")


@pytest.mark.parametrize(
    ("since", "known"), [(EVER, False), (Since(offset=7), False), (Since(offset=8), True), (Since(at_ms=9000), True)]
)
def test_before_a_metadata_snapshot_nothing_is_known(since: Since, known: bool) -> None:
    told = [*orders(), config("1000")]
    begun = [LoggedRecord(offset=8, timestamp_ms=None, record=each) for each in told]
    found = course(a_log([config("2000")], start=9), snapshot=begun)
    assert values(found) == ["1000", "2000"]
    assert found.reaches(since) == known


def test_behind_damage_a_change_may_be_lost() -> None:
    log: list[Any] = [*LOWERED[:4], DamagedRecord(offset=4), *LOWERED[5:]]
    found = course(log)
    assert (found.reaches(EVER), found.reaches(Since(offset=4)), found.reaches(Since(offset=5))) == (False, False, True)


def test_a_topic_that_came_from_zookeeper_had_settings_before() -> None:
    log = a_log([record("ZkMigrationStateRecord", zk_migration_state=1), *orders()])
    assert not course(log).reaches()


def test_of_a_topic_that_is_not_there_nothing_is_known() -> None:
    found = course([])
    assert (values(found), found.known(), found.reaches()) == ([WEEK], False, False)


def of_orders(log: list[Any]) -> LogSettings:
    history = replay(log)
    return log_settings(history, Settings(history, None), "orders")


def created(*own: Any) -> list[LoggedRecord]:
    """The topic with its settings in one batch, as the controller creates it."""
    return [
        LoggedRecord(offset=at, timestamp_ms=0, record=each, batch_offset=0)
        for at, each in enumerate((*orders()[:1], *own, *orders()[1:]))
    ]


def test_a_segment_may_be_as_large_as_any_limit_allowed_it_to_be() -> None:
    limits = [config(value, name="segment.bytes") for value in ("9000", "1000")]
    settings = of_orders([*created(config("2000", name="segment.bytes")), *a_log(limits, start=3)])
    assert (settings.largest("segment.bytes"), settings.smallest("segment.bytes")) == (9000, 1000)
    testing = of_orders(created(config("700", name="internal.segment.bytes"), config("2000", name="segment.bytes")))
    assert testing.largest("segment.bytes") == 700


@pytest.mark.parametrize(
    ("policies", "since_ms"),
    [
        (["delete"], None),
        (["compact"], 0),
        (["delete", "compact", "compact,delete"], 3000),
        (["compact", "delete", "compact"], 4000),
    ],
)
def test_since_when_a_policy_has_been_one_of_compaction(policies: list[str], since_ms: int | None) -> None:
    first, *later = (config(policy, name="cleanup.policy") for policy in policies)
    assert of_orders([*created(first), *a_log(later, start=3)]).compact_since_ms == since_ms


def in_sync(*records: Any) -> list[int | None]:
    """The minimum that held in leader epochs 0 to 2."""
    history = replay(a_log([*orders(), *records]))
    changes = tuple(history.topics[TOPIC_ID].partitions[0].changes)
    own = Settings(history, None)
    context = a_context(
        changes=changes,
        min_insync_replicas=own.min_insync_replicas("orders"),
        min_insync_course=own.course("orders", "min.insync.replicas"),
    )
    return [context.min_insync_replicas_in(epoch) for epoch in (0, 1, 2)]


def test_a_leader_epoch_has_the_minimum_of_then() -> None:
    minimum = [config(value, name="min.insync.replicas") for value in ("1", "2")]
    assert in_sync(minimum[0], change(leader=2), minimum[1], change(leader=3)) == [None, 2, 2]
    assert in_sync(minimum[0], change(leader=2), change(leader=3), minimum[1]) == [None, 1, 2]
    assert in_sync(change(leader=2), change(leader=3)) == [None, None, None]
