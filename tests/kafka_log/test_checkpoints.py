"""Checkpoint files: real ones, round trips, every way in which a line can be wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka_log.captures import CAPTURES
from tidegauge.kafka_log.checkpoints import (
    CheckpointEntry,
    EpochEntry,
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
)
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.log_dir import parse_partition_dir
from tidegauge.kafka_log.scan import scan_buffer

Golden = Callable[[str], Path]


def reasons(corruptions: tuple[Corruption, ...]) -> list[tuple[Damage, int, int]]:
    return [(c.kind, c.position, c.end_position) for c in corruptions]


@pytest.mark.parametrize("capture", CAPTURES)
def test_real_offset_checkpoints_are_sound_and_name_partitions_that_are_there(golden: Golden, capture: str) -> None:
    files = list(golden(capture).glob("broker-*/*-offset-checkpoint"))
    assert len(files) >= 12
    named = 0
    for file in files:
        parsed = parse_offset_checkpoint(file.read_bytes())
        assert parsed.corruptions == (), file
        assert parsed.empty == (not parsed.entries), file
        there = {d.name for d in file.parent.iterdir() if d.is_dir() and parse_partition_dir(d.name)}
        assert {f"{e.topic}-{e.partition}" for e in parsed.entries} <= there
        named += len(parsed.entries)
    assert named > 30


@pytest.mark.parametrize("capture", ["healthy", "epochs"])
def test_real_leader_epoch_checkpoints_rise_and_hold_every_epoch_of_the_log(golden: Golden, capture: str) -> None:
    compared = 0
    for file in golden(capture).glob("broker-*/*/leader-epoch-checkpoint"):
        parsed = parse_leader_epoch_checkpoint(file.read_bytes())
        assert parsed.corruptions == (), file
        entries = [(e.leader_epoch, e.start_offset) for e in parsed.entries]
        assert entries == sorted(set(entries))
        for log in file.parent.glob("*.log"):
            headers, _ = scan_buffer(log.read_bytes())
            assert set(headers["partition_leader_epoch"].tolist()) <= {epoch for epoch, _ in entries}, log
            compared += len(headers)
    assert compared > 1000


@pytest.mark.parametrize("data", [b"", b"0\n0\n", b"0\n0"])
def test_an_untouched_file_is_empty_not_damaged(data: bytes) -> None:
    for parsed in (parse_offset_checkpoint(data), parse_leader_epoch_checkpoint(data)):
        assert (parsed.empty, parsed.entries, parsed.corruptions) == (True, (), ())


entry = st.builds(
    CheckpointEntry,
    topic=st.from_regex(r"[A-Za-z0-9._-]{1,30}", fullmatch=True),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 1),
)


@given(entries=st.lists(entry, max_size=20), ending=st.sampled_from(["\n", "\r\n"]))
def test_what_a_broker_writes_is_read_back(entries: list[CheckpointEntry], ending: str) -> None:
    lines = ["0", str(len(entries)), *(f"{e.topic} {e.partition} {e.offset}" for e in entries), ""]
    parsed = parse_offset_checkpoint(ending.join(lines).encode())
    assert (parsed.declared_entries, parsed.entries, parsed.corruptions) == (len(entries), tuple(entries), ())


@given(entries=st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)), max_size=20))
def test_epochs_are_read_back_in_file_order(entries: list[tuple[int, int]]) -> None:
    text = f"0\n{len(entries)}\n" + "".join(f"{epoch} {start}\n" for epoch, start in entries)
    parsed = parse_leader_epoch_checkpoint(text.encode())
    assert parsed.entries == tuple(EpochEntry(leader_epoch=e, start_offset=s) for e, s in entries)
    assert parsed.corruptions == ()


@pytest.mark.parametrize(
    "line",
    [
        "orders 0",
        "orders 0 1 2",
        "orders zero 1",
        "orders 0 -1",
        "orders -1 0",
        "orders 2147483648 0",
        "orders 0 9223372036854775808",
        "orders 0 ٣",
        "orders 0 1e3",
        "orders 0 0x10",
        "orders 0 1_0",
        "\x00\x00\x00",
    ],
)
def test_a_line_that_is_no_entry_is_told_and_the_next_one_read(line: str) -> None:
    data = f"0\n2\n{line}\npayments 1 463\n".encode()
    parsed = parse_offset_checkpoint(data)
    assert parsed.entries == (CheckpointEntry(topic="payments", partition=1, offset=463),)
    end = 5 + len(line.encode())
    assert reasons(parsed.corruptions) == [(Damage.FORM, 4, end), (Damage.COUNT, 0, len(data))]
    assert not parsed.empty


@pytest.mark.parametrize("line", ["3", "3 4 5", "-1 0", "0 -1", "2147483648 0", "0 9223372036854775808"])
def test_a_line_that_is_no_epoch_is_told(line: str) -> None:
    parsed = parse_leader_epoch_checkpoint(f"0\n1\n{line}\n".encode())
    assert parsed.entries == ()
    assert [c.kind for c in parsed.corruptions] == [Damage.FORM, Damage.COUNT]


def test_another_version_is_told_and_the_entries_are_read_nevertheless() -> None:
    parsed = parse_offset_checkpoint(b"1\n1\norders 0 7\n")
    assert reasons(parsed.corruptions) == [(Damage.VERSION, 0, 2)]
    assert parsed.entries == (CheckpointEntry(topic="orders", partition=0, offset=7),)


@pytest.mark.parametrize("second", ["many", "-1", "2147483648", ""])
def test_a_count_that_is_no_number_is_told(second: str) -> None:
    parsed = parse_offset_checkpoint(f"0\n{second}\norders 0 7\n".encode())
    assert [c.kind for c in parsed.corruptions] == [Damage.FORM]
    assert parsed.declared_entries is None
    assert len(parsed.entries) == 1


def test_a_file_cut_short_is_told() -> None:
    assert [c.kind for c in parse_offset_checkpoint(b"0\n3\norders 0 7\n").corruptions] == [Damage.COUNT]
    assert [c.kind for c in parse_offset_checkpoint(b"0\n").corruptions] == [Damage.FORM]
    assert [c.kind for c in parse_offset_checkpoint(b"\0" * 64).corruptions] != []


@given(data=st.binary(max_size=200) | st.text(alphabet="0123456789 \n-a", max_size=80).map(str.encode))
def test_any_bytes_are_entries_and_damage(data: bytes) -> None:
    for parsed in (parse_offset_checkpoint(data), parse_leader_epoch_checkpoint(data)):
        assert parsed.corruptions or parsed.empty or parsed.declared_entries == len(parsed.entries)
        assert all(0 <= c.position <= c.end_position <= len(data) for c in parsed.corruptions)


@given(where=st.integers(0, 10_000), value=st.integers(0, 255))
def test_a_flipped_byte_is_damage_or_another_value(where: int, value: int) -> None:
    data = bytearray(b"0\n3\norders 0 1500\npayments 0 463\npayments 1 463\n")
    data[where % len(data)] = value
    parsed = parse_offset_checkpoint(bytes(data))
    assert parsed.corruptions or len(parsed.entries) == 3
