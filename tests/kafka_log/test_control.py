"""Control records: against Kafka's dump tool, and what only damage or newer versions give."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka_log.kafka_dump import dumped_files
from tests.kafka_log.writing import COMMIT_KEY, COMMIT_VALUE, tagged_field
from tidegauge.kafka_log.control import (
    ControlType,
    EndTxnMarker,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    OtherControl,
    SnapshotFooter,
    SnapshotHeader,
    decode_control_record,
    encode_control_record,
)
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.records import Record, records_in
from tidegauge.kafka_log.scan import scan_buffer

Golden = Callable[[str], Path]


def control_record(control_type: int, value: bytes | None, *, key_version: int = 0) -> Record:
    key = key_version.to_bytes(2, "big", signed=True) + control_type.to_bytes(2, "big")
    return Record(offset=5, timestamp=0, key=key, value=value)


def as_kafka_prints(decoded: object) -> object:
    """Put a decoded record into the shape of the JSON that the dump tool prints, its version aside."""
    match decoded:
        case LeaderChange():
            return {
                "leaderId": decoded.leader_id,
                "voters": [{"voterId": voter} for voter in decoded.voters],
                "grantingVoters": [{"voterId": voter} for voter in decoded.granting_voters],
            }
        case KRaftVersion():
            return {"kRaftVersion": decoded.kraft_version}
        case SnapshotHeader():
            return {"lastContainedLogTimestamp": decoded.last_contained_log_timestamp}
        case SnapshotFooter():
            return {}
        case KRaftVoters():
            return {
                "voters": [
                    {
                        "voterId": voter.voter_id,
                        "voterDirectoryId": voter.directory_id,
                        "endpoints": [{"name": n, "host": h, "port": p} for n, h, p in voter.endpoints],
                        "kRaftVersionFeature": {
                            "minSupportedVersion": voter.min_kraft_version,
                            "maxSupportedVersion": voter.max_kraft_version,
                        },
                    }
                    for voter in decoded.voters
                ]
            }
    raise AssertionError(f"{decoded} is not a KRaft record")


@pytest.mark.parametrize("capture", ["healthy", "epochs", "unclean-before", "hanging-txn"])
def test_control_records_are_those_that_kafkas_dump_tool_prints(golden: Golden, capture: str) -> None:
    kinds = set()
    for path, batches in dumped_files(golden(capture)):
        data = path.read_bytes()
        rows, _ = scan_buffer(data)
        for index, records in records_in(data, rows):
            dumped = batches[index]
            if not dumped.fields["attributes"] & 0x20 or not dumped.records:
                continue
            assert isinstance(records, tuple)
            for record, line in zip(records, dumped.records, strict=True):
                decoded = decode_control_record(record)
                kinds.add(type(decoded).__name__)
                text = line["rest"].strip()
                if isinstance(decoded, EndTxnMarker):
                    word = "COMMIT" if decoded.committed else "ABORT"
                    assert text == f"endTxnMarker: {word} coordinatorEpoch: {decoded.coordinator_epoch}"
                else:
                    printed = json.loads(text[text.index("{") :])
                    del printed["version"]
                    assert as_kafka_prints(decoded) == printed
    assert {"LeaderChange", "SnapshotHeader", "SnapshotFooter"} <= kinds
    assert capture != "healthy" or {"EndTxnMarker", "KRaftVersion", "KRaftVoters"} <= kinds


def test_end_markers() -> None:
    committed = decode_control_record(Record(offset=1, timestamp=0, key=COMMIT_KEY, value=COMMIT_VALUE))
    assert committed == EndTxnMarker(committed=True, coordinator_epoch=7)
    aborted = decode_control_record(control_record(ControlType.ABORT, COMMIT_VALUE))
    assert aborted == EndTxnMarker(committed=False, coordinator_epoch=7)


def test_newer_versions_may_have_more_behind() -> None:
    longer = decode_control_record(control_record(ControlType.COMMIT, b"\0\1" + COMMIT_VALUE[2:] + b"more"))
    assert longer == EndTxnMarker(committed=True, coordinator_epoch=7)


def test_leader_changes_of_version_1_name_directories() -> None:
    voter = (3).to_bytes(4, "big") + bytes(range(16)) + b"\1" + tagged_field(0, b"xy")
    value = b"\0\1" + (3).to_bytes(4, "big") + b"\2" + voter + b"\1" + b"\0"
    decoded = decode_control_record(control_record(ControlType.LEADER_CHANGE, value))
    assert decoded == LeaderChange(leader_id=3, voters=(3,), granting_voters=())


def test_a_type_that_is_not_known_is_handed_out() -> None:
    assert decode_control_record(control_record(99, b"anything")) == OtherControl(control_type=99)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (control_record(ControlType.COMMIT, COMMIT_VALUE[:-1]), "cut short"),
        (control_record(ControlType.COMMIT, None), "cut short"),
        (control_record(ControlType.COMMIT, b"\xff\xff" + COMMIT_VALUE[2:]), "value's version is -1"),
        (control_record(ControlType.COMMIT, COMMIT_VALUE, key_version=-1), "key's version is -1"),
        (Record(offset=5, timestamp=0, key=None, value=COMMIT_VALUE), "cut short"),
        (control_record(ControlType.LEADER_CHANGE, b"\0\0\0\0\0\1\x7f"), "it has 126 elements"),
        (control_record(ControlType.LEADER_CHANGE, b"\0\0\0\0\0\1\x80"), "cut short"),
        (control_record(ControlType.KRAFT_VOTERS, b"\0\0\2" + bytes(20) + b"\2" + b"\0" * 9), "a name is null"),
    ],
)
def test_what_cannot_be_read_is_told(record: Record, why: str) -> None:
    result = decode_control_record(record)
    assert isinstance(result, Corruption)
    assert (result.kind, result.start_offset, result.end_offset) == (Damage.RECORDS, 5, 6)
    assert why in result.detail


@given(control_type=st.integers(0, 7), value=st.none() | st.binary(max_size=80))
def test_any_value_is_read_without_an_exception(control_type: int, value: bytes | None) -> None:
    result = decode_control_record(control_record(control_type, value))
    assert isinstance(result, Corruption) or control_type > 6 or value is not None


@pytest.mark.parametrize("capture", ["healthy", "tiered"])
def test_control_records_are_written_as_the_same_bytes(golden: Golden, capture: str) -> None:
    kinds = set()
    for path in [*golden(capture).glob("broker-*/*/*.log"), *golden(capture).glob("broker-*/*/*.checkpoint")]:
        data = path.read_bytes()
        headers, _ = scan_buffer(data)
        for row, records in records_in(data, headers):
            if headers[row]["control_type"] == -1:
                continue
            assert not isinstance(records, Corruption)
            for record in records:
                decoded = decode_control_record(record)
                assert not isinstance(decoded, Corruption)
                assert encode_control_record(decoded) == (record.key, record.value), path
                kinds.add(type(decoded))
    assert {EndTxnMarker, LeaderChange, SnapshotHeader, SnapshotFooter} <= kinds


def test_a_control_record_of_an_unknown_type_is_not_written() -> None:
    with pytest.raises(ValueError, match="type 9 are not known"):
        encode_control_record(OtherControl(control_type=9))
