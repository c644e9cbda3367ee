"""What `tidegauge salvage` wrote, read again: the directory in, its origin and its records out.

The rule that must hold: nothing is taken from a directory that is not as it was written. Each record carries a digest
of its content, and `salvage.json` says how many records there are, so a file that was cut short or edited is an error.
"""

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidegauge.kafka_log.records import Headers, Record
from tidegauge.recovery.duplicates import Sequenced, content_of
from tidegauge.recovery.salvage import RECORDS, RESULT, SCHEMA_VERSION, Origin
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.fields import Fields, no_number
from tidegauge.snapshots.location import local

_AGAIN: Final = "Salvage the records again, into a new directory: tidegauge salvage SNAPSHOT … --out DIR"
_WAYS: Final = ("batch", "sequence", "content")
_OUTCOMES: Final = ("committed", "aborted", "open", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvagedRecord:
    """One record, and what was known of it when it was salvaged.

    `survived` says how it is known that a surviving copy had the same record (batch, sequence, content), None where
    none had; `survived_offset` is the place of that record.
    """

    record: Record
    content: bytes
    leader_epoch: int
    sequenced: Sequenced | None
    outcome: str | None
    survived: str | None
    survived_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """A salvaged directory."""

    directory: Path
    origin: Origin
    broker_id: int
    count: int
    start_offset: int | None
    end_offset: int | None
    unreadable: int
    """Batches whose records could not be salvaged."""

    def records(self) -> Iterator[SalvagedRecord]:
        """Every record, in the order of the log. Raises `SnapshotError` where the file is not what was written."""
        path = local(self.directory) / RECORDS
        number, last = 0, -1  # of lines
        try:
            with path.open("r", encoding="utf-8") as lines:
                for line in lines:
                    number += 1
                    found = _record(line)
                    if found.record.offset <= last:
                        raise ValueError(f"offset {found.record.offset} comes after offset {last}")
                    last = found.record.offset
                    yield found
        except FileNotFoundError as error:
            raise SnapshotError(
                f"{self.directory} holds no {RECORDS}, so it has no salvaged records. {_AGAIN}"
            ) from error
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise SnapshotError(
                f"{path}, line {number}, is not what `tidegauge salvage` writes: {_why(error)}. {_AGAIN}"
            ) from error
        if number != self.count:
            raise SnapshotError(
                f"{path} has {number:,} records, and {RESULT} counts {self.count:,}: it was cut short or added to. "
                f"{_AGAIN}"
            )


def read_salvage(directory: Path) -> Salvage:
    """What was salvaged, without its records. Raises `SnapshotError`."""
    path = local(directory) / RESULT
    try:
        told = Fields.of(json.loads(path.read_text(encoding="utf-8"), parse_constant=no_number), "it")
        if told.whole("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"its schema version is {told.whole('schema_version')}, not {SCHEMA_VERSION}")
        origin = Fields.of(told.values["origin"], "origin")
        return Salvage(
            directory=directory,
            origin=Origin(
                cluster=origin.text("cluster"),
                cluster_id=origin.text_or_none("cluster_id"),
                snapshot_id=origin.text("snapshot_id"),
                topic=origin.name("topic"),
                topic_id=origin.text_or_none("topic_id"),
                partition=origin.whole("partition", most=0x7FFFFFFF),
            ),
            broker_id=told.whole("broker_id", most=0x7FFFFFFF),
            count=told.whole("records"),
            start_offset=told.whole_or_none("start_offset"),
            end_offset=told.whole_or_none("end_offset"),
            unreadable=len(told.values["unreadable"]),
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SnapshotError(
            f"{directory} holds no {RESULT}, so it is not what `tidegauge salvage` writes. Name the directory that you "
            "gave it as --out."
        ) from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(
            f"{path} is not what this version's `tidegauge salvage` writes: {_why(error)}. {_AGAIN}"
        ) from error


def _record(line: str) -> SalvagedRecord:
    if not line.endswith("\n"):
        raise ValueError("it has no end")
    told = Fields.of(json.loads(line, parse_constant=no_number), "it")
    record = Record(
        offset=told.whole("offset"),
        timestamp=_signed(told, "timestamp_ms"),
        key=_bytes(told.values["key"]),
        value=_bytes(told.values["value"]),
        headers=_headers(told.values["headers"]),
    )
    content = content_of(record)
    if content.hex() != told.text("content_sha256"):
        raise ValueError("its key, value or headers are not those of which it holds the digest")
    outcome = told.text_or_none("outcome")
    same = told.object_or_none("duplicate_of")
    if outcome not in _OUTCOMES or (same is not None and same.text("by") not in _WAYS):
        raise ValueError("outcome or duplicate_of says what no salvage says")
    return SalvagedRecord(
        record=record,
        content=content,
        leader_epoch=_signed(told, "leader_epoch"),
        sequenced=_sequenced(told),
        outcome=outcome,
        survived=None if same is None else same.text("by"),
        survived_offset=None if same is None else same.whole("offset"),
    )


def _sequenced(told: Fields) -> Sequenced | None:
    names = ("producer_id", "producer_epoch", "sequence")
    found = [told.whole_or_none(name) for name in names]
    producer_id, epoch, sequence = found
    return None if producer_id is None or epoch is None or sequence is None else (producer_id, epoch, sequence)


def _signed(told: Fields, key: str) -> int:
    value: object = told.values[key]
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        raise TypeError(f"{key} must be a whole number of 64 bits")
    return value


def _bytes(value: object) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError("a key, a value or a header is neither null nor base64")
    return base64.b64decode(value, validate=True)


def _headers(value: Any) -> Headers:
    """In their order, with what comes twice. A name that is no UTF-8 has half surrogates, as in `kafka_log.records`."""
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise TypeError("headers must be a list of pairs")
    if not all(isinstance(name, str) for name, _ in value):
        raise TypeError("a header has no name")
    return tuple((name, _bytes(content)) for name, content in value)


def _why(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    if isinstance(error, binascii.Error):
        return "a key, a value or a header is not base64"
    return str(error) or type(error).__name__
