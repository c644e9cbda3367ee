"""Control records: the ends of transactions, and what a KRaft quorum writes about itself.

In: a record of a control batch. Out: one typed value, or a `Corruption`; and the other way. The rules that must hold:
a type that we do not know is handed out as `OtherControl`, because Kafka's own readers pass over it too; and what the
lists of voters become is charged to the log's `Allowance`.

    key                 version i16 | type i16
    0 abort, 1 commit   version i16 | coordinator epoch i32                        (Kafka EndTransactionMarker, KIP-98)
    2 leader change     version i16 | leader i32 | voters | granting voters        (LeaderChangeMessage)
    3 snapshot header   version i16 | last contained log timestamp i64             (SnapshotHeaderRecord, KIP-630)
    4 snapshot footer   version i16
    5 kraft version     version i16 | kraft.version i16                            (KRaftVersionRecord, KIP-853)
    6 voters            version i16 | voters with directory ids and endpoints      (VotersRecord, KIP-853)

From type 2 on the values are Kafka messages of flexible versions: lengths are unsigned varints plus one, and tagged
fields, which none of them has so far, end each structure.
"""

import base64
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tidegauge.kafka_log.allowance import STRUCT_VALUES, Allowance, BeyondAllowanceError, of_one_record, values_in
from tidegauge.kafka_log.corruption import Corruption, Damage
from tidegauge.kafka_log.records import Record
from tidegauge.kafka_log.varint import BROKEN, read_unsigned, write_unsigned


class ControlType(IntEnum):
    """A control record's type, from its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnMarker:
    """The end of a transaction in one partition, written by the coordinator whose epoch it carries."""

    committed: bool
    coordinator_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """A KRaft leader's first record: who voted and who granted the vote."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHeader:
    """First record of a metadata snapshot."""

    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFooter:
    """Last record of a metadata snapshot; without it the snapshot is not whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersion:
    """The quorum's kraft.version from here on."""

    kraft_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter of the quorum; `directory_id` in Kafka's base64 form, `endpoints` as (listener, host, port)."""

    voter_id: int
    directory_id: str
    endpoints: tuple[tuple[str, str, int], ...]
    min_kraft_version: int
    max_kraft_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVoters:
    """The quorum's voters from here on."""

    voters: tuple[Voter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherControl:
    """A control record of a type that this code does not know."""

    control_type: int


ControlRecord = (
    EndTxnMarker | LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters | OtherControl
)

_UUID_BYTES: Final = 16


class _UnreadableError(Exception):
    """Stays inside this module: why a control record cannot be read."""


def decode_control_record(record: Record, *, allowance: Allowance | None = None) -> ControlRecord | Corruption:
    """Decode one record of a control batch; a `Corruption`, positions in its value: of kind RECORDS if it is broken, of
    kind NOT_READ if it is more than the log's `allowance`.
    """
    value = record.value or b""
    allowance = allowance if allowance is not None else of_one_record(value)
    try:
        key = _Cursor(record.key or b"", allowance)
        key_version, control_type = key.signed(2), key.signed(2)
        if key_version < 0:
            raise _UnreadableError(f"the key's version is {key_version}")
        if not ControlType.ABORT <= control_type <= ControlType.KRAFT_VOTERS:
            return OtherControl(control_type=control_type)
        cursor = _Cursor(value, allowance)
        version = cursor.signed(2)
        if version < 0:
            raise _UnreadableError(f"the value's version is {version}")
        return _decode(ControlType(control_type), version, cursor)
    except (_UnreadableError, BeyondAllowanceError) as error:
        return Corruption(
            kind=Damage.NOT_READ if isinstance(error, BeyondAllowanceError) else Damage.RECORDS,
            position=0,
            end_position=len(value),
            detail=f"the control record cannot be read: {error}",
            start_offset=record.offset,
            end_offset=record.offset + 1,
            records=1,
        )


class _Cursor:
    """Reads forward over a value; every read is checked against its end."""

    def __init__(self, data: bytes, allowance: Allowance) -> None:
        self._data = data
        self._at = 0
        self.spend = allowance.spend_values

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise _UnreadableError("its value is cut short")
        self._at += size
        return self._data[self._at - size : self._at]

    def signed(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def unsigned_varint(self) -> int:
        value, after = read_unsigned(self._data, self._at)
        if after == BROKEN:
            raise _UnreadableError("its value is cut short")
        self._at = after
        return value

    def count(self) -> int:
        """Read an array's length, which is stored plus one; each element takes at least one byte."""
        count = self.unsigned_varint() - 1
        if not 0 <= count <= len(self._data) - self._at:
            raise _UnreadableError(f"an array says it has {count} elements")
        return count

    def text(self) -> str:
        size = self.unsigned_varint() - 1
        if size < 0:
            raise _UnreadableError("a name is null")
        data = self.take(size)
        self.spend(1 + values_in(data, is_text=True))
        return data.decode("utf-8", "replace")

    def skip_tagged_fields(self) -> None:
        for _ in range(self.unsigned_varint()):
            self.spend(1)
            self.unsigned_varint()
            self.take(self.unsigned_varint())


def _decode(control_type: ControlType, version: int, cursor: _Cursor) -> ControlRecord:
    match control_type:
        case ControlType.ABORT | ControlType.COMMIT:
            return EndTxnMarker(committed=control_type == ControlType.COMMIT, coordinator_epoch=cursor.signed(4))
        case ControlType.LEADER_CHANGE:
            leader_id = cursor.signed(4)
            voters = _voter_ids(cursor, version)
            return LeaderChange(leader_id=leader_id, voters=voters, granting_voters=_voter_ids(cursor, version))
        case ControlType.SNAPSHOT_HEADER:
            return SnapshotHeader(last_contained_log_timestamp=cursor.signed(8))
        case ControlType.SNAPSHOT_FOOTER:
            return SnapshotFooter()
        case ControlType.KRAFT_VERSION:
            return KRaftVersion(kraft_version=cursor.signed(2))
        case ControlType.KRAFT_VOTERS:
            return KRaftVoters(voters=tuple(_voter(cursor) for _ in range(cursor.count())))


def _voter_ids(cursor: _Cursor, version: int) -> tuple[int, ...]:
    """Read the voters of a leader change; from version 1 on each has its directory id."""
    voters = []
    for _ in range(cursor.count()):
        cursor.spend(1)
        voters.append(cursor.signed(4))
        if version >= 1:
            cursor.take(_UUID_BYTES)
        cursor.skip_tagged_fields()
    return tuple(voters)


def _voter(cursor: _Cursor) -> Voter:
    cursor.spend(STRUCT_VALUES)
    voter_id = cursor.signed(4)
    directory_id = base64.urlsafe_b64encode(cursor.take(_UUID_BYTES)).rstrip(b"=").decode()
    endpoints = []
    for _ in range(cursor.count()):
        cursor.spend(STRUCT_VALUES)
        name, host = cursor.text(), cursor.text()
        endpoints.append((name, host, int.from_bytes(cursor.take(2), "big")))
        cursor.skip_tagged_fields()
    min_version, max_version = cursor.signed(2), cursor.signed(2)
    cursor.skip_tagged_fields()  # of the range of versions
    cursor.skip_tagged_fields()  # of the voter
    return Voter(
        voter_id=voter_id,
        directory_id=directory_id,
        endpoints=tuple(endpoints),
        min_kraft_version=min_version,
        max_kraft_version=max_version,
    )


def encode_control_record(value: ControlRecord) -> tuple[bytes, bytes]:
    """Key and value of a control record, both of version 0, as a broker writes them. Raises ValueError for others."""
    match value:
        case EndTxnMarker():
            kind = ControlType.COMMIT if value.committed else ControlType.ABORT
            return _key(kind), _number(0, 2) + _number(value.coordinator_epoch, 4)
        case LeaderChange():
            body = _number(value.leader_id, 4) + _write_ids(value.voters) + _write_ids(value.granting_voters)
            return _key(ControlType.LEADER_CHANGE), _number(0, 2) + body + _NO_TAGS
        case SnapshotHeader():
            body = _number(value.last_contained_log_timestamp, 8)
            return _key(ControlType.SNAPSHOT_HEADER), _number(0, 2) + body + _NO_TAGS
        case SnapshotFooter():
            return _key(ControlType.SNAPSHOT_FOOTER), _number(0, 2) + _NO_TAGS
        case KRaftVersion():
            return _key(ControlType.KRAFT_VERSION), _number(0, 2) + _number(value.kraft_version, 2) + _NO_TAGS
        case KRaftVoters():
            voters = b"".join(_write_voter(voter) for voter in value.voters)
            count = write_unsigned(len(value.voters) + 1)
            return _key(ControlType.KRAFT_VOTERS), _number(0, 2) + count + voters + _NO_TAGS
        case OtherControl():
            raise ValueError(f"control records of type {value.control_type} are not known")


_NO_TAGS: Final = b"\0"


def _key(kind: ControlType) -> bytes:
    return _number(0, 2) + _number(kind, 2)


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def _write_ids(voters: tuple[int, ...]) -> bytes:
    return write_unsigned(len(voters) + 1) + b"".join(_number(voter, 4) + _NO_TAGS for voter in voters)


def _write_voter(voter: Voter) -> bytes:
    endpoints = b"".join(
        _write_text(name) + _write_text(host) + port.to_bytes(2, "big") + _NO_TAGS
        for name, host, port in voter.endpoints
    )
    return (
        _number(voter.voter_id, 4)
        + base64.urlsafe_b64decode(voter.directory_id + "==")
        + write_unsigned(len(voter.endpoints) + 1)
        + endpoints
        + _number(voter.min_kraft_version, 2)
        + _number(voter.max_kraft_version, 2)
        + _NO_TAGS
        + _NO_TAGS
    )


def _write_text(text: str) -> bytes:
    data = text.encode()
    return write_unsigned(len(data) + 1) + data
