"""The store on a real Postgres: hostile contents, and errors that say what to do."""

import json
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.helpers import breach, key, opened, report, rows, table
from tidegauge import store
from tidegauge.runs.errors import AddressError, AuditError, EvaluationError, SnapshotError, StoreError
from tidegauge.runs.store_address import normalised, without_secrets
from tidegauge.store.rows import NUL_SHOWN, json_text, storable_json, text_value

# ----------------------------------------------------------------------------------------------------- hostile contents

HOSTILE = [
    "",
    " ",
    "\\N",
    "NULL",
    "\\.",
    '"',
    '""',
    "a,b",
    "tab\there",
    "new\nline",
    "\\.\n",
    "carriage\r\nreturn",
    "back\\slash",
    "{1,2}",
    "'; DROP TABLE tidegauge.breach; --",
    "%s %(run_id)s {name}",
    "naïve ☃ 𐍈",
    "‮rtl",
    "x" * 40_000,
]


def test_whatever_a_name_holds_comes_back_as_it_was(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    values = [{"broker_id": n, "rack": text, "log_dirs": [text, "d2", text]} for n, text in enumerate(HOSTILE)]
    assert store.stage(url, run_id, "brokers", table("brokers", *values)) == len(HOSTILE)
    found = rows(url, "SELECT rack, log_dirs FROM tidegauge.brokers WHERE run_id = %s ORDER BY broker_id", run_id)
    assert found == [(text, [text, "d2", text]) for text in HOSTILE]
    store.publish(
        url,
        run_id,
        report(*(breach(f"b{n}", explanation=text, subject={"topic": text}) for n, text in enumerate(HOSTILE))),
    )
    found = rows(url, "SELECT explanation, topic FROM tidegauge.v_breach WHERE cluster = %s ORDER BY 1", cluster)
    assert sorted(found) == sorted((text, text) for text in HOSTILE)


def test_nulls_empties_and_extremes_are_kept_apart(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    values = [
        {
            "topic": "a",
            "partition": 2**31 - 1,
            "log_end_offset": 2**63 - 1,
            "isr": [],
            "elr": None,
            "cluster_stopped": None,
        },
        {
            "topic": "b",
            "partition": -(2**31),
            "log_end_offset": -(2**63),
            "isr": [1, 2],
            "elr": [3],
            "cluster_stopped": False,
        },
    ]
    store.stage(url, run_id, "partitions", table("partitions", *values))
    query = (
        "SELECT topic, partition, log_end_offset, isr, elr, cluster_stopped FROM tidegauge.partitions "
        "WHERE run_id = %s ORDER BY 1"
    )
    assert rows(url, query, run_id) == [tuple(v.values()) for v in values]


def test_a_nul_character_is_shown_for_postgres_cannot_hold_it(url: str, cluster: str) -> None:
    run_id = opened(url, key(cluster))
    damages = json.dumps([{"kind": "a\0b", "detail": "\\u0000 is no escape here"}])
    store.stage(url, run_id, "segments", table("segments", {"topic": "or\0ders", "path": "p", "damages": damages}))
    found = rows(url, "SELECT topic, damages FROM tidegauge.segments WHERE run_id = %s", run_id)
    assert found == [(f"or{NUL_SHOWN}ders", [{"kind": f"a{NUL_SHOWN}b", "detail": "\\u0000 is no escape here"}])]
    hostile = breach("b1", subject={"topic": "or\0ders\udcff"}, explanation="\0\udcff", evidence={"k\0": ["\ud800"]})
    store.publish(url, run_id, report(hostile))
    found = rows(url, "SELECT topic, explanation, evidence FROM tidegauge.v_breach WHERE cluster = %s", cluster)
    assert found == [(f"or{NUL_SHOWN}ders\ufffd", f"{NUL_SHOWN}\ufffd", {f"k{NUL_SHOWN}": ["\ufffd"]})]


@pytest.fixture(scope="module")
def scratch(url: str) -> Iterator[Any]:
    connection = psycopg2.connect(normalised(url).set(drivername="postgresql").render_as_string(hide_password=False))
    connection.autocommit = True
    with connection.cursor() as cursor:
        yield cursor
    connection.close()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=json_values)
def test_postgres_takes_any_json_and_changes_only_what_it_cannot_hold(scratch: Any, value: object) -> None:
    def shown(item: object) -> object:
        if isinstance(item, str):
            whole = item.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return whole.replace("\0", NUL_SHOWN)
        if isinstance(item, list):
            return [shown(i) for i in item]
        if isinstance(item, dict):
            return {shown(k): shown(v) for k, v in item.items()}
        return item

    scratch.execute("SELECT %s::jsonb", (json_text(value),))
    assert scratch.fetchone()[0] == json.loads(storable_json(json.dumps(value)))
    assert json.loads(json_text(value)) == shown(value)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(st.characters(codec=None)))
def test_postgres_takes_any_text(scratch: Any, value: str) -> None:
    scratch.execute("SELECT %s::text", (text_value(value),))
    assert scratch.fetchone()[0] == re.sub("[\ud800-\udfff]", "\ufffd", value.replace("\0", NUL_SHOWN))


# -------------------------------------------------------------------------------------------------------------- errors


NO_ADDRESSES = (
    "postgresql://someone:s3cret@127.0.0.1:s3cret/nowhere",
    "postgresql://someone:s3cret@[::1/nowhere",
    f"postgresql://someone:s3cret@127.0.0.1:{'9' * 5000}/nowhere",
    "postgresql://someone:s3cret@127.0.0.1/nowhere?port=s3cret",
    "postgresql://someone:s3cret@/nowhere?host=127.0.0.1:5432&host=127.0.0.1:s3cret",
    "postgresql://someone:s3cret%00@127.0.0.1/nowhere",
    "postgresql://\ud800:s3cret@127.0.0.1/nowhere",
)


@pytest.mark.parametrize("address", NO_ADDRESSES)
@pytest.mark.parametrize("reads", [normalised, without_secrets], ids=lambda reads: reads.__name__)
def test_what_is_no_address_is_said_to_be_none(address: str, reads: Callable[[str], object]) -> None:
    with pytest.raises(AddressError, match="Give postgresql") as raised:
        reads(address)
    assert "s3cret" not in str(raised.value)
    assert raised.value.__context__ is None, "an error that repeats the address"


@pytest.mark.parametrize(
    "broken",
    [
        "postgresql+psycopg2://someone:s3cret@127.0.0.1:1/nowhere",
        "postgresql://someone:s3cret@127.0.0.1:1/nowhere",
        "postgresql+psycopg2://someone@127.0.0.1:1/nowhere?password=s3cret",
        "mysql://someone:s3cret@127.0.0.1/nowhere",
        "s3cret",
        *NO_ADDRESSES,
    ],
)
def test_an_unusable_store_is_named_without_its_password(broken: str) -> None:
    run_id = "20261121T030000Z-00000000"
    actions = (
        lambda: store.migrate(broken),
        lambda: opened(broken, key("c")),
        lambda: store.stage(broken, run_id, "brokers", table("brokers")),
        lambda: store.publish(broken, run_id, report()),
        lambda: store.discard(broken, run_id),
    )
    for action in actions:
        with pytest.raises(StoreError) as raised:
            action()
        told = str(raised.value)
        assert "store" in told
        assert "s3cret" not in told
        assert "s3cret" not in str(raised.value.__cause__)
        assert ("127.0.0.1" in told and "Check that" in told) or "Give postgresql" in told


def test_a_password_that_the_server_refuses_is_not_repeated(url: str) -> None:
    refused = normalised(url).set(username="nobody", password="s3cret")
    with pytest.raises(StoreError, match='role "nobody" does not exist') as raised:
        store.migrate(refused.render_as_string(hide_password=False))
    assert "s3cret" not in str(raised.value)


def test_a_store_that_was_never_migrated_says_so(postgres_server: Any, worker_id: str) -> None:
    empty = postgres_server.fresh_database(f"bare_{worker_id}")
    with pytest.raises(StoreError, match=r'relation "tidegauge\.audit_run" does not exist'):
        opened(empty, key("c"))


@pytest.mark.parametrize("error", [AuditError, SnapshotError, StoreError, EvaluationError])
def test_errors_come_through_pickle(error: type[AuditError]) -> None:
    copy = pickle.loads(pickle.dumps(error("what, where, what to do")))
    assert type(copy) is error
    assert str(copy) == "what, where, what to do"
