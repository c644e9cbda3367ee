"""Names in a log dir: what every name in real log dirs is taken for, and what is none."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.kafka_log.log_dir import (
    MetadataCheckpoint,
    PartitionDir,
    SegmentFile,
    headers_name,
    is_headers_file,
    log_name,
    parse_metadata_checkpoint,
    parse_partition_dir,
    parse_segment_file,
)

Golden = Callable[[str], Path]
HEX = "0123456789abcdef" * 2
NO_SEGMENT = {"leader-epoch-checkpoint", "partition.metadata", "quorum-state"}


@pytest.mark.parametrize("capture", ["healthy", "pair-clean-b2", "tiered", "soak-01", "kafka-4.1", "kafka-3.9"])
def test_every_name_in_a_real_log_dir_is_known(golden: Golden, capture: str) -> None:
    states = set()
    for broker in golden(capture).glob("broker-*"):
        for directory in (d for d in broker.iterdir() if d.is_dir() and d.name != "remote-log-index-cache"):
            named = parse_partition_dir(directory.name)
            assert named is not None, directory
            states.add(named.state)
            for file in directory.iterdir():
                known = parse_segment_file(file.name) or parse_metadata_checkpoint(file.name)
                assert (known is None) == (file.name in NO_SEGMENT), file
    assert states <= {"live", "deleted"}
    assert "live" in states


@pytest.mark.parametrize(
    ("name", "topic", "partition", "state"),
    [
        ("orders-0", "orders", 0, "live"),
        ("with-dashes-in-it-12", "with-dashes-in-it", 12, "live"),
        ("__consumer_offsets-49", "__consumer_offsets", 49, "live"),
        ("dots.and_underscores-7", "dots.and_underscores", 7, "live"),
        ("-0", None, None, None),
        ("a-1-2", "a-1", 2, "live"),
        (f"orders-0.{HEX}-delete", "orders", 0, "deleted"),
        (f"orders-0.{HEX}-future", "orders", 0, "future"),
        (f"orders-0.{HEX}-stray", "orders", 0, "stray"),
        (f"orders-0.{HEX}-else", None, None, None),
        (f"orders-0.{HEX[:-1]}-delete", None, None, None),
        ("remote-log-index-cache", None, None, None),
        ("lost+found", None, None, None),
        ("orders", None, None, None),
        ("orders--1", "orders-", 1, "live"),
        ("orders-2147483647", "orders", 2**31 - 1, "live"),
        ("orders-2147483648", None, None, None),
        ("orders-٣", None, None, None),
        ("orders-0\n", None, None, None),
        ("t" * 250 + "-0", None, None, None),
    ],
)
def test_a_directory_is_a_partition_or_none(name: str, topic: str, partition: int, state: str) -> None:
    found = parse_partition_dir(name)
    assert (found and (found.topic, found.partition, found.state)) == ((topic, partition, state) if topic else None)


@pytest.mark.parametrize("kind", ["log", "index", "timeindex", "txnindex", "snapshot"])
@pytest.mark.parametrize("suffix", ["", "deleted", "cleaned", "swap", "tmp"])
def test_a_segment_file_has_twenty_digits_a_kind_and_a_suffix(kind: str, suffix: str) -> None:
    name = f"00000000000000000288.{kind}" + (f".{suffix}" if suffix else "")
    found = parse_segment_file(name)
    assert found == SegmentFile(base_offset=288, kind=kind, suffix=suffix)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [
        "288.log",
        "00000000000000000288.txt",
        "00000000000000000288.log.bak",
        "00000000000000000288.log.",
        "000000000000000002880.log",
        "-0000000000000000288.log",
        "00000000000000000350-0000000001.checkpoint",
        "09223372036854775808.log",
        "99999999999999999999.index",
    ],
)
def test_other_files_are_no_segment_files(name: str) -> None:
    assert parse_segment_file(name) is None


def test_the_largest_offset_is_a_name_still() -> None:
    found = parse_segment_file("09223372036854775807.log")
    assert found is not None
    assert found.base_offset == 2**63 - 1


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("00000000000000000350-0000000007.checkpoint", MetadataCheckpoint(end_offset=350, leader_epoch=7)),
        ("00000000000000000350-0000000007.checkpoint.part", None),
        ("00000000000000000350-0000000007.checkpoint.deleted", None),
        ("bootstrap.checkpoint", None),
        ("00000000000000000350-2147483648.checkpoint", None),
        ("09223372036854775808-0000000007.checkpoint", None),
    ],
)
def test_a_metadata_checkpoint_is_named_after_its_end(name: str, found: MetadataCheckpoint | None) -> None:
    assert parse_metadata_checkpoint(name) == found


@given(topic=st.from_regex(r"[A-Za-z0-9._-]{1,60}", fullmatch=True), partition=st.integers(0, 2**31 - 1))
def test_any_legal_partition_is_found_again(topic: str, partition: int) -> None:
    found = parse_partition_dir(f"{topic}-{partition}")
    assert found == PartitionDir(topic=topic, partition=partition, state="live")


@given(name=st.text(max_size=60) | st.from_regex(r"[0-9]{18,22}(-[0-9]{9,11})?\.(log|index|checkpoint)"))
def test_any_name_is_something_or_nothing(name: str) -> None:
    for found in (parse_segment_file(name), parse_metadata_checkpoint(name), parse_partition_dir(name)):
        assert found is None or "-" in name or "." in name


@pytest.mark.parametrize("suffix", ["", ".deleted", ".cleaned", ".swap", ".tmp"])
@pytest.mark.parametrize("folder", ["", "orders-0/", "broker-1/orders.log-0/"])
def test_a_log_and_its_headers_file_know_each_others_names(folder: str, suffix: str) -> None:
    log, headers = f"{folder}{7:020d}.log{suffix}", f"{folder}{7:020d}.headers{suffix}"
    assert (headers_name(log), log_name(headers), log_name(log)) == (headers, log, log)
    assert (is_headers_file(headers), is_headers_file(log)) == (True, False)
    assert parse_segment_file(headers.rsplit("/", 1)[-1]) == SegmentFile(
        base_offset=7, kind="headers", suffix=suffix[1:]
    )


@pytest.mark.parametrize("name", ["x.headers", f"{7:020d}.headers.bak", f"a{7:020d}.headers", f"{7:020d}.headers/x"])
def test_other_names_are_no_headers_files(name: str) -> None:
    assert not is_headers_file(name)
    assert log_name(name) == name
