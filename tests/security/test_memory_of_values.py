"""One record of a few bytes out of which a decoder would make millions of values, in a process without room for them.

The limits are those of docs/guides/limits.md.
"""

import io
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import cramjam
import pytest

from tests.kafka_log.writing import batch, record
from tests.security.memory import within
from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.derivation.metadata.metadata_log import snapshot_contents
from tidegauge.facts.coordinators.tables import CoordinatorTable, latest_records
from tidegauge.kafka_log.allowance import of_internal_topic
from tidegauge.kafka_log.control import decode_control_record
from tidegauge.kafka_log.coordinator_records import (
    decode_remote_log_record,
    decode_share_state_record,
    decode_transaction_record,
)
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.internal_topics import CONSUMER_OFFSETS
from tidegauge.kafka_log.metadata_records import decode_metadata_record
from tidegauge.kafka_log.records import Record
from tidegauge.kafka_log.varint import write_unsigned
from tidegauge.snapshots.manifest import LeftOut

pytestmark = pytest.mark.slow

MEGABYTE: Final = 1 << 20
MILLIONS: Final = 1 << 21
LOG: Final = f"{0:020d}.log"
ZSTD: Final = 4


def zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """What is compiled takes memory once."""
    key, value = streams_assignment(1)
    assert tables(CONSUMER_OFFSETS, batch(0, zstd(record(0, key, value)), 1, attributes=ZSTD)).unreadable == 0


def streams_assignment(count: int) -> tuple[bytes, bytes]:
    """Key and value of a StreamsGroupTargetAssignmentMember of so many tasks, three bytes each."""
    tasks = write_unsigned(count + 1) + b"\1\1\0" * count
    return b"\0\x15\0\1g\0\1m", b"\0\0" + tasks + b"\1\1\0"


def tables(topic: str, log: bytes) -> CoordinatorTable:
    allowance = of_internal_topic()
    return latest_records(topic, SegmentFile(LOG, io.BytesIO(log)).records(allowance), allowance)


def test_six_kilobytes_of_twenty_million_values_in_one_record() -> None:
    key, value = streams_assignment(21_000_000)
    bomb = batch(0, zstd(record(0, key, value)), 1, attributes=ZSTD)
    del value
    assert len(bomb) < 6 << 10

    def read() -> None:
        assert tables(CONSUMER_OFFSETS, bomb).unreadable == 1

    within(256, read)


def test_a_log_of_records_each_of_which_may_be_decoded() -> None:
    """Alone: together their values are more than is made of one log."""
    key, value = streams_assignment(20_000)
    log = b"".join(batch(at, zstd(record(0, key, value)), 1, attributes=ZSTD) for at in range(60))

    def read() -> None:
        assert tables(CONSUMER_OFFSETS, log[: len(log) // 60]).unreadable == 0
        assert 40 < tables(CONSUMER_OFFSETS, log).unreadable < 60

    within(64, read)


def control(control_type: int, value: bytes) -> Record:
    return Record(offset=0, timestamp=0, key=struct.pack(">hh", 0, control_type), value=value)


MANY: Final[Mapping[str, tuple[Callable[..., Any], bytes, bytes]]] = {
    "a share group's batches": (
        lambda value, allowance: decode_share_state_record(b"\0\0\0\1g" + bytes(20), value, allowance=allowance),
        b"\0\0" + bytes(36) + write_unsigned(MILLIONS + 1),
        bytes(20),
    ),
    "a transaction's topics": (
        lambda value, allowance: decode_transaction_record(b"\0\0\0\1t", value, allowance=allowance),
        b"\0\0" + bytes(15) + struct.pack(">i", MILLIONS),
        bytes(6),
    ),
    "a remote segment's epochs": (
        lambda value, allowance: decode_remote_log_record(value, allowance=allowance),
        b"\1\3\0" + bytes(52) + write_unsigned(MILLIONS + 1),
        bytes(13),
    ),
    "a partition's replicas": (
        lambda value, allowance: decode_metadata_record(value, allowance=allowance),
        b"\1\3\0" + bytes(20) + write_unsigned(MILLIONS + 1),
        bytes(4),
    ),
    "tagged fields that nobody knows": (
        lambda value, allowance: decode_metadata_record(value, allowance=allowance),
        b"\1\x14\0" + write_unsigned(MILLIONS),
        b"\7\0",
    ),
    "a leader's voters": (
        lambda value, allowance: decode_control_record(control(2, value), allowance=allowance),
        bytes(6) + write_unsigned(MILLIONS + 1),
        bytes(5),
    ),
    "a voter's endpoints": (
        lambda value, allowance: decode_control_record(control(6, value), allowance=allowance),
        b"\0\0\2" + bytes(20) + write_unsigned(MILLIONS + 1),
        b"\1\1\0\0\0",
    ),
}
"""By what there are many of: the decoder, what stands before them, and each."""


@pytest.mark.parametrize("what", MANY)
def test_each_decoder_of_records_keeps_to_the_allowance(what: str) -> None:
    decode, before, each = MANY[what]
    value = before + each * MILLIONS

    def read() -> None:
        found = decode(value, of_internal_topic())
        assert isinstance(found, Corruption)
        assert found.kind == Damage.NOT_READ

    within(64, read)


def test_a_text_of_which_each_character_takes_four_bytes() -> None:
    text = "\N{WHITE SMILING FACE}".encode() + b"a" * (40 * MEGABYTE)
    value = b"\1\4\0\2\1\1" + write_unsigned(len(text) + 1) + text + b"\0"

    def read() -> None:
        found = decode_metadata_record(value, allowance=of_internal_topic())
        assert isinstance(found, Corruption)
        assert found.kind == Damage.NOT_READ

    within(64, read)


def test_a_metadata_snapshot_is_read_with_one_allowance(tmp_path: Path) -> None:
    """Its records are all kept, so that their values are in memory at once."""
    count = 50_000
    replicas = write_unsigned(count + 1) + bytes(4 * count)
    partition = b"\1\3\0" + bytes(20) + replicas + b"\1" * 3 + bytes(12) + b"\0"
    log = b"".join(batch(at, zstd(record(0, None, partition)), 1, attributes=ZSTD) for at in range(30))
    (tmp_path / LOG).write_bytes(log)

    def read() -> None:
        unread: list[LeftOut] = []
        contents = snapshot_contents(tmp_path, LOG, 30, unread)
        assert contents is not None
        assert 3 < len(contents.records) < 10
        assert not contents.whole
        assert [left.path for left in unread] == [LOG]

    within(64, read)
