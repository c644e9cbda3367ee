"""The decoders: how an input is made for each, and what must hold of whatever it hands out.

In: the corpus. Out: `Kind`s. What a reader may raise is what its own documentation says (`SnapshotError` for the
manifest and the answers, nothing at all for Kafka's bytes), and it is caught here, by name. Everything else that is
raised is a finding, and so is a promise that is not kept (`AssertionError`).
"""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

from benchmarks.fuzz.corpus import Corpus
from benchmarks.fuzz.documents import ANSWERS, MANIFEST
from benchmarks.fuzz.formats import (
    damaged_batch,
    damaged_headers_file,
    damaged_log,
    damaged_producer_snapshot,
)
from benchmarks.fuzz.kinds import Kind
from benchmarks.fuzz.mutate import TEXTS, damaged, damaged_json, damaged_lines, number_near
from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.facts.segments.record_check import RecordChecker
from tidegauge.kafka_log import coordinator_records as coordinators
from tidegauge.kafka_log.allowance import Allowance, of_internal_topic
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.checkpoints import parse_leader_epoch_checkpoint, parse_offset_checkpoint
from tidegauge.kafka_log.control import OtherControl, decode_control_record, encode_control_record
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.headers_file import (
    END_FRAME_BYTES,
    HeadersReader,
    kept_records,
    log_size_bytes,
    write_headers,
)
from tidegauge.kafka_log.indexes import parse_offset_index, parse_time_index
from tidegauge.kafka_log.log_dir import (
    headers_name,
    is_headers_file,
    is_live_log,
    log_name,
    parse_metadata_checkpoint,
    parse_partition_dir,
    parse_segment_file,
)
from tidegauge.kafka_log.metadata_records import decode_metadata_record, encode_metadata_record
from tidegauge.kafka_log.old_formats import digest_entry, has_its_magic
from tidegauge.kafka_log.producer_snapshot import parse_producer_snapshot
from tidegauge.kafka_log.properties import (
    parse_clean_shutdown,
    parse_meta_properties,
    parse_partition_metadata,
    parse_quorum_state,
)
from tidegauge.kafka_log.records import Record, read_batch
from tidegauge.kafka_log.scan import scan_batches, scan_buffer
from tidegauge.kafka_log.transaction_index import parse_transaction_index
from tidegauge.snapshots import cluster_answers, manifest
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.hashed_records import hashed_checkpoint, hashed_log
from tidegauge.snapshots.topic_names import TopicNames

LARGEST: Final = (1 << 63) - 1
_NAMES: Final = TopicNames(b"a secret that is of no use to anybody")


def decoders(corpus: Corpus) -> tuple[Kind, ...]:
    """Every decoder's kind, the dearest last."""
    files = corpus.files

    def file(name: str, read: Callable[[bytes], object], damage: Callable[..., bytes] = damaged) -> Kind:
        return _kind(name=name, make=partial(_one_of, files[name], damage), read=read)

    texts = partial(file, damage=damaged_lines)
    codecs = [
        _kind(
            name=f"records, {CompressionType(codec).name.lower()}",
            make=partial(_one_of, corpus.batches[codec], damaged_batch),
            read=_read_batch,
        )
        for codec in sorted(corpus.batches)
    ]
    topics = [
        _kind(name=f"records of {topic}", make=partial(_pair, corpus.records[topic]), read=partial(_read_own, topic))
        for topic in sorted(corpus.records)
    ]
    return (
        _kind(name="names", make=_name, read=_read_name),
        file("offset-index", _read_offset_index),
        file("time-index", _read_time_index),
        file("transaction-index", lambda data: _checked(parse_transaction_index(data), data)),
        file(
            "producer-snapshot", lambda data: _checked(parse_producer_snapshot(data), data), damaged_producer_snapshot
        ),
        texts("offset-checkpoint", _read_offset_checkpoint),
        texts("epoch-checkpoint", lambda data: _checked(parse_leader_epoch_checkpoint(data), data)),
        texts("meta.properties", lambda data: _checked(parse_meta_properties(data), data)),
        texts("partition.metadata", lambda data: _checked(parse_partition_metadata(data), data)),
        _kind(name="quorum-state", make=partial(_json_of, files["quorum-state"]), read=_read_quorum_state),
        _kind(name="clean-shutdown", make=partial(_json_of, files["clean-shutdown"]), read=_read_clean_shutdown),
        _kind(name="control records", make=partial(_pair, corpus.control), read=_read_control),
        *topics,
        *codecs,
        _kind(name="entries, formats 0 and 1", make=partial(_one_of, corpus.entries, damaged_batch), read=_read_batch),
        _kind(name="manifest", make=partial(_document, MANIFEST), read=_read_manifest),
        _kind(name="cluster's answers", make=partial(_document, ANSWERS), read=_read_answers),
        _kind(name="headers file", make=partial(_one_of, corpus.headers, damaged_headers_file), read=_read_headers),
        _kind(name="hashed names", make=partial(_own_batch, corpus), read=_hash_names),
        _kind(name="segment", make=partial(_log, corpus.logs, corpus.flat()), read=_read_log),
        _kind(name="segment, formats 0 and 1", make=partial(_log, corpus.old_logs, corpus.entries), read=_read_log),
    )


def _kind(*, name: str, make: Callable[[Random], Any], read: Callable[[Any], object]) -> Kind:
    return Kind(name=name, make=make, read=read, keep=_keep)


def _keep(value: Any, path: str) -> None:
    """Bytes and texts as they are; of anything else its words, and the bytes in it."""
    data = value if isinstance(value, bytes | str) else repr(value)
    Path(path).write_bytes(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)


# ------------------------------------------------------------------------------------------------------ how one is made


def _one_of(found: Sequence[bytes], damage: Callable[[Random, bytes, Sequence[bytes]], bytes], rng: Random) -> bytes:
    return damage(rng, rng.choice(found), found)


def _log(runs: Sequence[Sequence[bytes]], others: Sequence[bytes], rng: Random) -> tuple[bytes, "Way", int]:
    """A log, how else it is read, and how many bytes it is handed out at a time."""
    data = damaged_log(rng, rng.choice(runs), others)
    return (
        data,
        rng.choice((_read_piecewise, _read_its_records, _read_its_headers_file)),
        rng.choice((1 << 20, 4096, 61, 7)),
    )


def _pair(found: Sequence[Record], rng: Random) -> Record:
    """A record with its key or its value damaged, or with another's."""
    record, other = rng.choice(found), rng.choice(found)
    match rng.randrange(8):
        case 0:
            return replace(record, key=_damaged_or_null(rng, record.key, other.key))
        case 1:
            return replace(record, key=other.key)
        case _:
            return replace(record, value=_damaged_or_null(rng, record.value, other.value))


def _damaged_or_null(rng: Random, data: bytes | None, other: bytes | None) -> bytes | None:
    if rng.random() < 0.05:
        return None
    return damaged(rng, data or b"", [other] if other else ())


def _own_batch(corpus: Corpus, rng: Random) -> tuple[str, bytes]:
    """A batch of one of Kafka's own topics; or a checkpoint, under no topic."""
    if rng.random() < 0.2:
        return "", damaged_lines(rng, rng.choice(corpus.files["offset-checkpoint"]))
    topic = rng.choice(sorted(corpus.own_batches))
    return topic, damaged_batch(rng, rng.choice(corpus.own_batches[topic]), corpus.own_batches[topic])


def _json_of(found: Sequence[bytes], rng: Random) -> bytes:
    data = rng.choice(found)
    if rng.random() < 0.5 or not data.strip():
        return damaged(rng, data, found)
    return json.dumps(damaged_json(rng, json.loads(data))).encode()


def _document(text: str, rng: Random) -> str:
    if rng.random() < 0.2:
        return damaged(rng, text.encode()).decode("utf-8", rng.choice(("replace", "surrogateescape")))
    if rng.random() < 0.01:
        return rng.choice(('{"a":', "[")) * 100_000
    return json.dumps(damaged_json(rng, json.loads(text)), ensure_ascii=rng.random() < 0.5)


def _name(rng: Random) -> str:
    name = rng.choice(
        (
            "orders-0", "orders-0.0123456789abcdef0123456789abcdef-delete", "00000000000000000288.log",
            "a.b_c-12.00000000000000000000000000000000-future", "00000000000000000288.timeindex.deleted",
            "00000000000000000350-0000000001.checkpoint", "orders-0/00000000000000000288.log.swap",
            "x/00000000000000000000.headers", "99999999999999999999.log",
        )
    )  # fmt: skip
    if rng.random() < 0.5:
        return damaged(rng, name.encode()).decode("utf-8", "surrogateescape")
    at = rng.randrange(len(name))
    return name[:at] + rng.choice(TEXTS) + str(number_near(rng, at)) + name[at + rng.randrange(4) :]


# ------------------------------------------------------------------------------------------------- what must hold of it


def _within(corruptions: Iterable[Corruption], size: int) -> None:
    """Damage lies in the file, and what it tells has room where it is kept."""
    for damage in corruptions:
        assert 0 <= damage.position <= damage.end_position <= size, f"{damage} of {size} bytes"
        _fits(damage.start_offset, damage.end_offset, damage.records)
        damage.detail.encode("utf-8")


def _fits(*numbers: int | None) -> None:
    for number in numbers:
        assert number is None or type(number) is int, f"{number!r} is no number"
        assert number is None or -LARGEST - 1 <= number <= LARGEST, f"{number} has no room in 64 bits"


def _checked(read: Any, data: bytes) -> None:
    _within(read.corruptions, len(data))


def _read_name(name: str) -> None:
    partition = parse_partition_dir(name)
    assert partition is None or partition.partition < 1 << 31
    segment = parse_segment_file(name)
    assert segment is None or segment.base_offset <= LARGEST
    checkpoint = parse_metadata_checkpoint(name)
    assert checkpoint is None or checkpoint.end_offset <= LARGEST
    assert log_name(headers_name(name)) == log_name(name)
    is_live_log(name)
    is_headers_file(name)


def _read_offset_index(data: bytes) -> None:
    for active, size in ((False, len(data) << 8), (True, None)):
        _checked(parse_offset_index(data, base_offset=LARGEST >> 1, log_size_bytes=size, active=active), data)
    parse_offset_index(data, base_offset=0, log_size_bytes=0, active=True, zeros_behind=1 << 20)


def _read_time_index(data: bytes) -> None:
    for active in (False, True):
        _checked(parse_time_index(data, base_offset=LARGEST >> 1, active=active), data)
    parse_time_index(data, base_offset=0, active=True, zeros_behind=1 << 20)


def _read_offset_checkpoint(data: bytes) -> None:
    read = parse_offset_checkpoint(data)
    _checked(read, data)
    for entry in read.entries:
        _fits(entry.offset)


def _read_quorum_state(data: bytes) -> None:
    read = parse_quorum_state(data)
    _checked(read, data)
    _fits(read.leader_id, read.leader_epoch, read.voted_id, read.data_version)
    (read.voted_directory_id or "").encode("utf-8")


def _read_clean_shutdown(data: bytes) -> None:
    read = parse_clean_shutdown(data)
    _checked(read, data)
    _fits(read.version, read.broker_epoch)


def _read_control(record: Record) -> None:
    decoded = decode_control_record(record)
    if isinstance(decoded, Corruption):
        _within([decoded], len(record.value or b""))
    elif not isinstance(decoded, OtherControl):
        key, value = encode_control_record(decoded)
        again = decode_control_record(replace(record, key=key, value=value))
        assert again == decoded, f"written and read again: {again}, not {decoded}"


def _read_own(topic: str, record: Record) -> None:
    if topic == "__cluster_metadata":
        decoded = decode_metadata_record(record.value or b"")
        if not isinstance(decoded, Corruption):
            _same(decoded, decode_metadata_record(encode_metadata_record(decoded)))
        return
    if topic == "__remote_log_metadata":
        segment = coordinators.decode_remote_log_record(record.value)
        if segment is not None and not isinstance(segment, Corruption):
            _fits(segment.start_offset, segment.end_offset, segment.max_timestamp_ms)
        fields = coordinators.decode_remote_log_fields(record.value or b"")
        if not isinstance(fields, Corruption):
            _same(fields, coordinators.decode_remote_log_fields(coordinators.encode_remote_log_record(fields)))
        return
    for read in (
        coordinators.decode_offsets_record,
        coordinators.decode_transaction_record,
        coordinators.decode_share_state_record,
    ):
        read(record.key, record.value)
    whole = coordinators.decode_coordinator_record(topic, record.key, record.value)
    if not isinstance(whole, Corruption):
        key, value = coordinators.encode_coordinator_record(topic, whole)
        _same(whole, coordinators.decode_coordinator_record(topic, key, value))


def _same(decoded: object, again: object) -> None:
    """What was read is written and read as the same; by its words, since NaN is not NaN."""
    assert repr(again) == repr(decoded), f"written and read again: {again}, not {decoded}"


def _read_batch(data: bytes) -> None:
    read = read_batch(data)
    if isinstance(read, Corruption):
        _within([read], len(data))
        return
    for record in read.records:
        _fits(record.offset, record.timestamp)
    if len(data) > 26 and data[16] < 2:
        digests = digest_entry(memoryview(data), len(read.records), allowance=Allowance())
        assert not isinstance(digests, Corruption)
        assert [int(d) for block in digests for d in block["offset"]] == [r.offset for r in read.records]


def _read_manifest(text: str) -> None:
    try:
        read = manifest.from_json(text, place=Path(), where=manifest.MANIFEST_NAME)
    except SnapshotError as error:
        str(error).encode("utf-8", "backslashreplace")
        return
    assert manifest.from_json(manifest.to_json(read, Path()), place=Path(), where="again") == read


def _read_answers(text: str) -> None:
    try:
        read = cluster_answers.from_json(text, where=cluster_answers.ANSWERS_NAME)
    except SnapshotError:
        return
    assert cluster_answers.from_json(cluster_answers.to_json(read), where="again") == read
    json.dumps(asdict(read), ensure_ascii=False).encode("utf-8")
    read.renamed(_NAMES.hashed, _NAMES.identifier)


def _piecewise(data: bytes, piece: int) -> Callable[[memoryview], int]:
    given = 0

    def readinto(target: memoryview) -> int:
        nonlocal given
        size = min(len(target), len(data) - given, piece)
        target[:size] = data[given : given + size]
        given += size
        return size

    return readinto


def _read_headers(data: bytes) -> None:
    log_size_bytes(data[-END_FRAME_BYTES:])
    reader = HeadersReader(_piecewise(data, 1 << 20))
    for block in reader.blocks():
        _within(block.corruptions, LARGEST)
        for _, records in kept_records(block, allowance=of_internal_topic()):
            if not isinstance(records, Corruption):
                _fits(*(r.offset for r in records), *(r.timestamp for r in records))


def _hash_names(given: tuple[str, bytes]) -> None:
    topic, data = given
    if not topic:
        hashed = hashed_checkpoint(data, _NAMES)
        assert len(parse_offset_checkpoint(hashed).entries) <= len(parse_offset_checkpoint(data).entries)
        return
    kept = hashed_log(topic, _NAMES)(data)
    read = read_batch(data)
    assert (kept is None) == isinstance(read, Corruption)
    if kept is not None and not isinstance(read, Corruption):
        again = read_batch(kept)
        assert not isinstance(again, Corruption), again
        assert [r.offset for r in again.records] == [r.offset for r in read.records]


Way = Callable[[bytes, Any, tuple[Corruption, ...], int], None]


def _read_log(given: tuple[bytes, Way, int]) -> None:
    data, way, piece = given
    rows, corruptions = scan_buffer(data)
    _within(corruptions, len(data))
    _all_told(rows, corruptions, len(data))
    way(data, rows, corruptions, piece)


def _read_piecewise(data: bytes, rows: Any, corruptions: tuple[Corruption, ...], piece: int) -> None:
    checker = RecordChecker(log_size_bytes=len(data))
    blocks = list(_copied(scan_batches(_piecewise(data, piece), block_rows=8, buffer_bytes=256, on_rows=checker.take)))
    json.dumps(asdict(checker.found))
    assert np.array_equal(rows, np.concatenate([headers for headers, _ in blocks])), "piece by piece is all at once"
    assert corruptions == tuple(c for _, of_block in blocks for c in of_block), "and so is the damage"


def _read_its_records(data: bytes, rows: Any, corruptions: tuple[Corruption, ...], piece: int) -> None:
    told = 0
    for _, records in SegmentFile("00000000000000000000.log", io.BytesIO(data), len(data)).records():
        told += 1
        if not isinstance(records, Corruption):
            _fits(*(r.offset for r in records), *(r.timestamp for r in records))
    assert told == int(np.count_nonzero(has_its_magic(rows))), "each batch has its records, or why there are none"


def _read_its_headers_file(data: bytes, rows: Any, corruptions: tuple[Corruption, ...], piece: int) -> None:
    kept = bytearray()
    assert write_headers(_piecewise(data, piece), kept.extend) == len(data)
    read = np.concatenate([b.headers.copy() for b in HeadersReader(_piecewise(bytes(kept), piece)).blocks()])
    assert np.array_equal(rows, read), "a headers file tells what its log tells"


def _copied(blocks: Iterable[Any]) -> Iterator[tuple[Any, tuple[Corruption, ...]]]:
    return ((block.headers.copy(), block.corruptions) for block in blocks)


def _all_told(rows: Any, corruptions: tuple[Corruption, ...], size: int) -> None:
    """Every byte is in a row or in a damaged stretch (`kafka_log.scan`)."""
    spans = [(int(r["position"]), int(r["position"]) + int(r["size_bytes"])) for r in rows]
    spans += [(c.position, c.end_position) for c in corruptions]
    told = 0
    for start, end in sorted(spans):
        assert start <= told, f"nothing is said of bytes {told} to {start} of {size}"
        told = max(told, end)
    assert told >= size, f"nothing is said of the last {size - told} bytes"
