"""A headers snapshot says of everything what the full one says; with hashed names, the same by other names."""

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Golden
from tests.derivation import breaks
from tests.derivation.breaks import EXPECTED, PARTITIONS, Break
from tests.derivation.damage import copy_of, wrong
from tests.derivation.pipeline import Derived, Row, derived, derived_once
from tests.sampling import one_in
from tests.snapshots.headers_copies import headers_copy
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.headers_file import HeadersReader
from tidegauge.kafka_log.internal_topics import INTERNAL_TOPICS
from tidegauge.kafka_log.log_dir import is_headers_file
from tidegauge.kafka_log.records import records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.relations import RELATIONS
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.manifest import MANIFEST_NAME
from tidegauge.snapshots.topic_names import TopicNames

CAPTURES = ("unclean-before", "healthy", "hanging-txn", "soak-01", "tiered")
NAMES = TopicNames(b"a key that the tests know")
BREAKS = (
    breaks.flip_in_records,
    breaks.flip_in_records_of_the_last_batch_after_a_crash,
    breaks.other_epoch,
    breaks.other_base_offset,
    breaks.other_bytes,
    breaks.duplicated,
    breaks.dropped_batch,
    breaks.cut_sealed,
    breaks.cut_active_after_a_crash,
    breaks.swap_segments,
    breaks.zero_page,
    breaks.text_sealed,
    breaks.empty_log,
    breaks.bad_index_position,
    breaks.garbage_checkpoint,
)
OF_RECORDS = {
    "segments": {
        c.name for c in RELATIONS["segments"].columns if c.name.startswith("record_") and c.name != "record_count"
    },
    "upkeep": {
        "key_incomparable_reason",
        "keys_sampled_permille",
        "keys",
        "duplicate_keys",
        "first_duplicate_offset",
        "unkeyed_records",
        "first_unkeyed_offset",
        "first_unkeyed_at_ms",
    },
    "key_comparisons": {
        "incomparable_reason",
        "keys_sampled_permille",
        "keys_compared",
        "differing_keys",
        "missing_keys",
        "revived_keys",
        "first_differing_offset",
        "only_on",
    },
    "remote_segments": {"store_captured", "missing_files", "damaged_files", "damages"},
}
"""Columns that a headers snapshot cannot fill: it has no records of users' topics, and no remote store."""
_SMALLEST_TOLD = 8
"""A record's value of fewer bytes may stand anywhere by chance."""

Copied = Callable[[str, TopicNames | None], Path]


@pytest.fixture(scope="module")
def copied(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Copied:
    """`copied("healthy", names)`: the headers snapshot of a capture, made once."""
    made: dict[tuple[str, bool], Path] = {}

    def copy(capture: str, names: TopicNames | None) -> Path:
        key = (capture, names is not None)
        if key not in made:
            made[key] = tmp_path_factory.mktemp(capture)
            headers_copy(golden(capture), made[key], names)
        return made[key]

    return copy


def own_rows(facts: Derived) -> dict[str, list[Row]]:
    """The facts, without the name of the snapshot and what only records, or the remote store, tell."""
    return {
        relation: [
            {n: v for n, v in row.items() if n != "snapshot_id" and n not in OF_RECORDS.get(relation, ())}
            for row in of_relation
        ]
        for relation, of_relation in facts.rows.items()
        if of_relation
    }


@pytest.mark.parametrize("capture", one_in(3, CAPTURES))
def test_facts_of_headers_are_the_facts_of_the_logs(golden: Golden, copied: Copied, capture: str) -> None:
    full, headers = derived_once(golden(capture)), derived_once(copied(capture, None))
    assert own_rows(headers) == own_rows(full)
    assert headers.unread() == full.unread()


@pytest.mark.slow
def test_what_records_tell_is_not_known_of_headers(copied: Copied) -> None:
    facts = derived_once(copied("healthy", None))
    assert {r["record_batches_read"] for r in facts.all("segments", topic="compacted")} == {None}
    assert {r["key_incomparable_reason"] for r in facts.all("upkeep", topic="compacted")} == {"no payload"}
    assert {r["incomparable_reason"] for r in facts.all("key_comparisons", topic="compacted")} == {"no payload"}
    assert all(r["keys_compared"] for r in facts.all("key_comparisons", topic="__consumer_offsets", partition=1))


@pytest.mark.parametrize("capture", one_in(3, CAPTURES))
def test_facts_of_hashed_names_are_the_same_by_other_names(golden: Golden, copied: Copied, capture: str) -> None:
    full, hashed = own_rows(derived_once(golden(capture))), own_rows(derived_once(copied(capture, NAMES)))
    assert full.keys() == hashed.keys()
    for relation, rows in full.items():
        pairs = zip(in_order(hashed[relation]), in_order(renamed(row) for row in rows), strict=True)
        assert [(relation, set(a) ^ set(b)) for a, b in pairs if a != b] == []


def in_order(rows: Any) -> list[list[tuple[str, str]]]:
    return sorted(sorted((name, repr(value)) for name, value in row.items()) for row in rows)


def renamed(row: Row) -> Row:
    to: dict[str, Callable[[Any], Any]] = {
        "topic": NAMES.hashed,
        "group": NAMES.identifier,
        "transactional_id": NAMES.identifier,
        "path": renamed_path,
        "directory": renamed_path,
        "name": renamed_entry if "kind" in row else NAMES.identifier,
        "partitions": lambda places: [NAMES.path(p) for p in places] if isinstance(places, list) else places,
        # A setting of anything but a topic or a broker may be a name.
        "value": lambda text: (
            re.sub(r'(?<=:")[^"]+', lambda told: NAMES.identifier(told.group()), text)
            if row["name"].startswith("group/")
            else text
        ),
        "history": lambda text: json.dumps(
            [step | {"partitions": [NAMES.path(p) for p in step["partitions"]]} for step in json.loads(text)],
            separators=(",", ":"),
        ),
        # Where a key belongs is known by its name alone.
        "expected_partition": lambda place: None,
        "expected_state_partition": lambda place: None,
        "names_hashed": lambda no: True,
        "leftovers": lambda text: json.dumps(
            [place | {"path": renamed_path(place["path"])} for place in json.loads(text)], separators=(",", ":")
        ),
    }
    return {name: to[name](value) if name in to and value is not None else value for name, value in row.items()}


def renamed_entry(name: str) -> str:
    """A setting of a topic or a group, as the metadata image names it."""
    kind, _, rest = name.partition("/")
    of, _, setting = rest.rpartition("/")
    hides = {"topic": NAMES.hashed, "group": NAMES.identifier}
    return f"{kind}/{hides[kind](of)}/{setting}" if kind in hides else name


def renamed_path(path: str) -> str:
    broker, _, rest = path.partition("/")
    return f"{broker}/{NAMES.path(rest)}"


@pytest.mark.parametrize("break_it", one_in(4, BREAKS, [b.__name__ for b in BREAKS]))
def test_each_break_is_found_without_the_records(golden: Golden, break_it: Break, tmp_path: Path) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "copy", *PARTITIONS)
    break_it(copy)
    headers_copy(copy, tmp_path / "headers")
    full, headers = derived(copy), derived(tmp_path / "headers")
    assert set(EXPECTED[break_it]) <= wrong(headers)
    assert own_rows(headers) == own_rows(full)


# ---------------------------------------------------------------------------------------------------- what is not there


def contents(snapshot: Path) -> Iterator[tuple[str, bytes]]:
    """Every file's path and bytes; a headers file's as they were packed, and unpacked."""
    for path in sorted(p for p in snapshot.rglob("*") if p.is_file()):
        data = without_holes(path)
        yield path.relative_to(snapshot).as_posix(), data
        if is_headers_file(path.name):
            with path.open("rb") as file:
                for block in HeadersReader(file.readinto).blocks():
                    yield path.name, block.headers.tobytes()
                    yield path.name, repr(block.corruptions).encode()
                    yield path.name, b"\0".join(block.kept.values())


def without_holes(path: Path) -> bytes:
    """What is on disk of a file: indexes are preallocated."""
    parts, at = [], 0
    with path.open("rb", buffering=0) as file:
        size = path.stat().st_size
        while at < size:
            try:
                start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:  # a hole up to the end
                    raise
                break
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            parts.append(os.pread(file.fileno(), at - start, start))
    return b"".join(parts).rstrip(b"\0")


def told(snapshot: Path) -> bytes:
    """All that can be read in a snapshot, its files' names included."""
    return b"\0".join(name.encode() + b"\0" + data for name, data in contents(snapshot))


def users_records(capture: Path) -> set[bytes]:
    """Keys and values of every record of a user's topic, whatever state its directory is in."""
    found: set[bytes] = set()
    for path in capture.glob("broker-*/**/*.log*"):
        if path.parent.name.rsplit("-", 1)[0] in INTERNAL_TOPICS:
            continue
        data = path.read_bytes()
        headers, _ = scan_buffer(data)
        for _, records in records_in(data, headers[headers["control_type"] == -1]):
            if not isinstance(records, Corruption):
                found |= {part for r in records for part in (r.key, r.value) if part is not None}
    return {part for part in found if len(part) >= _SMALLEST_TOLD}


def maybe_in(data: bytes, words: set[bytes]) -> Iterator[bytes]:
    """The words whose first bytes stand somewhere in the data."""
    every = np.unique(np.concatenate([np.frombuffer(data, "<u8", (len(data) - at) // 8, at) for at in range(8)]))
    by_start = {int.from_bytes(word[:8], "little"): word for word in words}
    starts = np.array(list(by_start), np.uint64)
    met = set(starts[np.isin(starts, every)].tolist())
    yield from (word for word in words if int.from_bytes(word[:8], "little") in met)


@pytest.mark.parametrize("capture", one_in(3, CAPTURES))
def test_no_record_of_a_users_topic_is_in_a_headers_snapshot(golden: Golden, copied: Copied, capture: str) -> None:
    records = users_records(golden(capture))
    assert len(records) > 300
    for snapshot in (copied(capture, None), copied(capture, NAMES)):
        everything = told(snapshot)
        assert not [record for record in maybe_in(everything, records) if record in everything]
        assert not list(snapshot.rglob("*.log.deleted"))


@pytest.mark.parametrize("capture", one_in(3, CAPTURES))
def test_no_name_of_a_users_topic_is_in_a_hashed_snapshot(golden: Golden, copied: Copied, capture: str) -> None:
    facts = derived_once(golden(capture))
    topics = {row["topic"] for row in facts.all("topics")} | {
        directory.name.split(".")[0].rsplit("-", 1)[0]
        for directory in golden(capture).glob("broker-*/*-*")
        if directory.is_dir()
    }
    users = {topic.encode() for topic in topics - INTERNAL_TOPICS - {"remote-log-index"}}
    assert len(users) >= 2
    everything = told(copied(capture, NAMES))
    for name in users:
        # A name is a word of its own wherever Kafka writes it: between separators, or after its length.
        assert not [at for at in occurrences(everything, name) if stands_alone(everything, at, name)], name


def occurrences(data: bytes, word: bytes) -> Iterator[int]:
    at = data.find(word)
    while at >= 0:
        yield at
        at = data.find(word, at + 1)


def stands_alone(data: bytes, at: int, word: bytes) -> bool:
    """Not a part of another word (`.txnindex` is no topic `txn`), nor four letters met in a checksum."""
    before, after = data[at - 1 : at], data[at + len(word) : at + len(word) + 1]
    return not ((before + after).isalnum() and before.isalpha()) and not after.isalnum()


@pytest.mark.slow
def test_the_manifest_says_what_was_done(golden: Golden, copied: Copied) -> None:
    manifest = open_snapshot(copied("healthy", NAMES)).manifest
    assert (manifest.mode, manifest.hashed_topics) == ("headers", True)
    logs = [f for f in manifest.files() if is_headers_file(f.path)]
    for file in logs:
        assert file.source_size_bytes is not None
    full = open_snapshot(golden("healthy")).manifest
    sizes = [f.size_bytes for f in full.files() if ".log" in f.path.rsplit("/", 1)[-1]]
    assert sorted(f.log_size_bytes for f in logs) == sorted(sizes)


@pytest.mark.slow
def test_a_headers_snapshot_without_its_manifest_can_be_adopted(copied: Copied, tmp_path: Path) -> None:
    made = copied("healthy", None)
    plain = shutil.copytree(made, tmp_path / "plain", ignore=shutil.ignore_patterns(MANIFEST_NAME))
    assert own_rows(derived(plain)) == own_rows(derived_once(made))
    assert open_snapshot(plain).manifest.mode == "headers"


def test_a_broken_headers_file_is_unread_and_no_damage_of_the_log(golden: Golden, tmp_path: Path) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "copy", *PARTITIONS)
    headers_copy(copy, tmp_path / "headers")
    path = tmp_path / "headers/broker-2/live-0/00000000000000000000.headers"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    facts = derived(tmp_path / "headers")
    reason = facts.unread()["broker-2/live-0/00000000000000000000.log"]
    assert reason.startswith("the headers file cannot be read on: a frame is cut short or its checksum is wrong")
    assert not [
        row for row in facts.all("segments", broker_id=2, topic="live") if row["crc_errors"] or row["torn_tail"]
    ]
