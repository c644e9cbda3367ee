"""Transaction indexes: against what Kafka's dump tool prints of them, round trips, damage."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka_log.kafka_dump_lines import dumped_lines
from tidegauge.kafka_log.corruption import Damage
from tidegauge.kafka_log.transaction_index import AbortedTransaction, parse_transaction_index

Golden = Callable[[str], Path]
LONG = st.integers(-(2**63), 2**63 - 1)
ENTRIES = st.lists(
    st.builds(AbortedTransaction, producer_id=LONG, first_offset=LONG, last_offset=LONG, last_stable_offset=LONG),
    max_size=6,
)
ONE = AbortedTransaction(producer_id=7, first_offset=10, last_offset=12, last_stable_offset=13)


def written(entries: list[AbortedTransaction], version: int = 0) -> bytes:
    return b"".join(
        struct.pack(">hqqqq", version, e.producer_id, e.first_offset, e.last_offset, e.last_stable_offset)
        for e in entries
    )


def test_entries_are_those_that_kafkas_dump_tool_prints(golden: Golden) -> None:
    printed = 0
    for path, lines in dumped_lines(golden("healthy"), ".txnindex"):
        index = parse_transaction_index(path.read_bytes())
        assert index.corruptions == (), path
        assert [
            f"version: 0 producerId: {e.producer_id} firstOffset: {e.first_offset} lastOffset: {e.last_offset} "
            f"lastStableOffset: {e.last_stable_offset}"
            for e in index.entries
        ] == lines, path
        printed += len(lines)
    assert printed >= 30


@given(entries=ENTRIES)
def test_what_is_written_is_read_back(entries: list[AbortedTransaction]) -> None:
    index = parse_transaction_index(written(entries))
    assert (index.entries, index.corruptions) == (tuple(entries), ())


@given(data=st.binary(max_size=150))
def test_any_bytes_are_entries_and_damage(data: bytes) -> None:
    index = parse_transaction_index(data)
    assert len(index.entries) == len(data) // 34
    assert index.corruptions or data == written(list(index.entries))


@pytest.mark.parametrize("extra", [1, 33])
def test_bytes_behind_the_last_whole_entry_are_told(extra: int) -> None:
    index = parse_transaction_index(written([ONE]) + bytes(extra))
    assert index.entries == (ONE,)
    assert [(c.kind, c.position, c.end_position) for c in index.corruptions] == [(Damage.FORM, 34, 34 + extra)]


def test_another_version_is_told_and_where() -> None:
    index = parse_transaction_index(written([ONE]) + written([ONE], version=1))
    assert [(c.kind, c.position, c.end_position) for c in index.corruptions] == [(Damage.VERSION, 34, 68)]
    assert index.entries == (ONE, ONE)
