"""Few bytes that claim, or unpack to, many: each decoder reads them in a process that has a few megabytes more.

Each is sound but for what it claims, down to the checksum. The limits are those of docs/guides/limits.md.
"""

import io
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import cramjam
import pytest

from tests.kafka_log.test_old_formats import wrapper
from tests.kafka_log.writing import batch, old_entry, record
from tests.security.memory import within
from tidegauge.derivation.files.segment_files import SegmentFile
from tidegauge.derivation.key_reading import _Taker as KeyTaker
from tidegauge.facts.cleanup.key_table import KeyTableBuilder
from tidegauge.facts.segments.record_check import RecordChecker
from tidegauge.kafka_log.allowance import MAX_INTERNAL_BYTES, Allowance, of_internal_topic
from tidegauge.kafka_log.batch import CompressionType
from tidegauge.kafka_log.checkpoints import MAX_ENTRIES, parse_leader_epoch_checkpoint, parse_offset_checkpoint
from tidegauge.kafka_log.compression import FREE_PLAIN_BYTES, MAX_PLAIN_BYTES, PLAIN_FOR_PACKED, decompress_to_array
from tidegauge.kafka_log.corruption import PLACES_KEPT, Corruption, Damage
from tidegauge.kafka_log.crc32c import crc32c
from tidegauge.kafka_log.headers_file import HeadersReader, write_headers
from tidegauge.kafka_log.old_formats import inside
from tidegauge.kafka_log.properties import parse_meta_properties, parse_quorum_state
from tidegauge.kafka_log.records import Record, read_batch
from tidegauge.kafka_log.scan import scan_batches, scan_buffer
from tidegauge.kafka_log.scan_kernel import LARGEST_BATCH
from tidegauge.kafka_log.transaction_index import parse_transaction_index
from tidegauge.kafka_log.varint import write_signed
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.local_path import LARGEST_FILE_OF_KAFKA, LARGEST_FILE_READ_WHOLE, LARGEST_TEXT_READ_WHOLE
from tidegauge.snapshots.location import local, unreadable
from tidegauge.snapshots.manifest import MANIFEST_NAME

pytestmark = pytest.mark.slow

MEGABYTE: Final = 1 << 20
LOG: Final = f"{0:020d}.log"
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LIMITS: Final = Path(__file__).parents[2] / "docs" / "guides" / "limits.md"


def zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def gzip(data: bytes) -> bytes:
    return bytes(cramjam.gzip.compress(data, level=9))


def tiny_records(count: int) -> bytes:
    """All alike, seven bytes each."""
    return record(0, None, None) * count


def bombs(count: int, plain: bytes) -> bytes:
    """A log of batches that each unpack to the same."""
    packed = zstd(plain)
    return b"".join(batch(at, packed, 1, attributes=ZSTD) for at in range(count))


def checked(log: bytes) -> RecordChecker:
    checker = RecordChecker(log_size_bytes=len(log))
    for _ in scan_batches(io.BytesIO(log).readinto, on_rows=checker.take):
        pass
    return checker


def digested(log: bytes) -> tuple[KeyTaker, KeyTableBuilder]:
    builder = KeyTableBuilder()
    taker = KeyTaker(builder)
    for _ in SegmentFile(LOG, io.BytesIO(log)).blocks(taker.take):
        pass
    return taker, builder


def internal(log: bytes) -> Iterator[tuple[Record, ...] | Corruption]:
    for _, records in SegmentFile(LOG, io.BytesIO(log)).records():
        yield records


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """What is compiled takes memory once."""
    log = batch(0, record(0, b"k", b"v"), 1) + batch(1, zstd(record(0, b"k", b"v")), 1, attributes=ZSTD)
    old = old_entry(2, 1, b"v") + wrapper(3, 1, GZIP, gzip(old_entry(0, 1, b"v")))
    for some in (log, old, b"not a batch" * 20):
        assert checked(some).found.form_errors == 0
        digested(some)
        list(internal(some))


# ---------------------------------------------------------------------------------------------------- batches' records


def test_a_batch_of_68_bytes_that_claims_two_thousand_million_records() -> None:
    log = batch(0, record(0, None, None), 2**31 - 1, last_offset_delta=2**31 - 2)
    assert len(log) == 68

    def read() -> None:
        assert isinstance(read_batch(log), Corruption)
        assert checked(log).found.form_errors == 1
        taker, _ = digested(log)
        assert not taker.not_read

    within(32, read)


def test_six_kilobytes_of_four_million_records() -> None:
    count = 1 << 22
    bomb = batch(0, zstd(tiny_records(count)), count, attributes=ZSTD)
    assert len(bomb) < 6 << 10

    def read() -> None:
        found = read_batch(bomb)
        assert isinstance(found, Corruption)
        assert found.kind == Damage.NOT_READ
        assert checked(bomb).found.form_errors == 0
        taker, builder = digested(bomb)
        assert taker.not_read
        assert len(builder.table(()).records) == 0

    within(160, read)


def test_six_kilobytes_of_four_million_headers() -> None:
    many = b"\0\1" * (1 << 22)
    body = b"\0\0\0\1\1" + write_signed(1 << 22) + many
    bomb = batch(0, zstd(write_signed(len(body)) + body), 1, attributes=ZSTD)

    def read() -> None:
        found = read_batch(bomb)
        assert isinstance(found, Corruption)
        assert found.kind == Damage.NOT_READ

    within(64, read)


def test_a_log_of_batches_each_of_which_may_be_read() -> None:
    """Alone: together they are more than is read of one log, of whichever kind."""
    count = 100_000
    log = b"".join(batch(at, zstd(tiny_records(count)), count, attributes=ZSTD) for at in range(20))

    def read() -> None:
        read_of = [len(r) if isinstance(r, tuple) else r.kind for r in internal(log)]
        assert read_of.count(count) == 1
        assert read_of.count(Damage.NOT_READ) == 19

    within(96, read)


def test_an_internal_topics_log_of_many_large_values() -> None:
    """Each is a sound batch. One is in memory at a time."""
    log = bombs(60, record(0, b"k", bytes(MEGABYTE)))

    def read() -> None:
        assert [len(r) for r in internal(log) if isinstance(r, tuple)] == [1] * 60

    within(24, read)


def test_a_users_segment_of_batches_that_unpack_to_gigabytes() -> None:
    log = bombs(500, record(0, None, bytes(60 * MEGABYTE)))

    def read() -> None:
        found = checked(log).found
        assert found.form_errors == 0
        assert 0 < found.batches_read < 100
        assert found.batches_read + found.batches_passed_over == 500

    within(224, read)


def test_a_compacted_segment_of_a_few_kilobytes_has_no_table_of_millions() -> None:
    keyed = record(0, b"k", b"v") * (1 << 21)
    bomb = batch(0, zstd(keyed), 1 << 21, attributes=ZSTD)
    alike = b"".join(batch(at, zstd(record(0, b"k", b"v") * 50_000), 50_000, attributes=ZSTD) for at in range(50))

    def read() -> None:
        for log in (bomb, alike):
            taker, builder = digested(log)
            assert taker.not_read
            assert len(builder.table(()).records) < 1 << 19

    within(160, read)


# -------------------------------------------------------------------------------------------------------------- codecs


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD])
def test_what_unpacks_to_more_than_is_read_is_no_damage(codec: CompressionType) -> None:
    """Any more than this is not unpacked, and what is unpacked is there once."""
    plain = bytes(MAX_PLAIN_BYTES + MEGABYTE)
    pack: Callable[[bytes], Any] = {"GZIP": gzip, "LZ4": cramjam.lz4.compress, "ZSTD": zstd}[codec.name]
    packed = bytes(pack(plain))
    del plain

    def read() -> None:
        found = decompress_to_array(codec, packed)
        assert isinstance(found, Corruption)
        assert found.kind == Damage.NOT_READ

    within(300, read)


def test_a_zstd_frame_of_a_few_bytes_is_unpacked_to_64_megabytes_at_most() -> None:
    packed = zstd(bytes(FREE_PLAIN_BYTES))
    more = zstd(bytes(2 * FREE_PLAIN_BYTES))
    assert max(len(packed), len(more)) < FREE_PLAIN_BYTES // PLAIN_FOR_PACKED

    def read() -> None:
        found = decompress_to_array(CompressionType.ZSTD, packed)
        assert not isinstance(found, Corruption)
        assert len(found) == FREE_PLAIN_BYTES
        assert isinstance(decompress_to_array(CompressionType.ZSTD, more), Corruption)

    within(150, read)


def test_a_batch_of_zeros_is_read_however_well_it_is_packed() -> None:
    """A megabyte, and as much as gzip can ever make of what a broker takes."""
    for codec, pack, size in ((ZSTD, zstd, 60), (GZIP, gzip, 60), (GZIP, gzip, 250)):
        log = batch(0, pack(record(0, b"k", bytes(size * MEGABYTE))), 1, attributes=codec)
        found = checked(log).found
        assert (found.batches_read, found.batches_passed_over, found.form_errors) == (1, 0, 0)
        read = read_batch(log)
        assert not isinstance(read, Corruption)
        assert len(read.records[0].value or b"") == size * MEGABYTE
        taker, builder = digested(log)
        assert not taker.not_read
        assert len(builder.table(()).records) == 1


def test_records_that_are_all_alike_are_read_beyond_what_is_free() -> None:
    """But for their offsets: as a test's producer writes them, and a group's tombstones."""
    count, times = 50_000, 6
    alike = zstd(b"".join(record(at, None, b"tick") for at in range(count)))
    allowance = Allowance()
    for at in range(times):
        one = batch(at * count, alike, count, attributes=ZSTD)
        assert not isinstance(read_batch(one, allowance=allowance), Corruption)
    assert count * times > Allowance().records
    key = b"\0\1\0\5group\0\6orders"
    tombstones = zstd(b"".join(record(at, key + struct.pack(">i", at), None) for at in range(count)))
    log = b"".join(batch(at * count, tombstones, count, attributes=ZSTD) for at in range(times))
    assert [len(records) for records in internal(log)] == [count] * times
    assert count * times > of_internal_topic().records


# --------------------------------------------------------------------------------------------------------- old formats


def test_a_log_of_old_entries_whose_codec_has_no_bound() -> None:
    """Zstd came with format 2: no entry of an older one is packed with it."""
    packed = zstd(old_entry(0, 1, bytes(200 * MEGABYTE)))
    log = b"".join(wrapper(at, 1, ZSTD, packed) for at in range(100))

    def read() -> None:
        rows, _ = scan_buffer(log)
        assert rows["record_count"].tolist() == [-1] * 100
        assert checked(log).found.form_errors == 100

    within(64, read)


def test_an_old_entry_that_unpacks_to_more_than_is_read_is_passed_over() -> None:
    log = wrapper(0, 1, GZIP, gzip(old_entry(0, 1, bytes(MAX_PLAIN_BYTES))))

    def read() -> None:
        found = inside(memoryview(log))
        assert isinstance(found, Corruption)
        assert found.kind == Damage.NOT_READ
        said = checked(log).found
        assert (said.form_errors, said.batches_read, said.batches_passed_over) == (0, 0, 1)

    within(300, read)


# ------------------------------------------------------------------------------------------------------------- the log


def test_a_sparse_log_that_claims_a_batch_of_its_size(tmp_path: Path) -> None:
    path = tmp_path / LOG
    with path.open("wb") as file:
        file.write(struct.pack(">qiib", 0, (600 << 20) - 12, 0, 2))
        file.truncate(600 << 20)

    def read() -> None:
        with path.open("rb") as file:
            (block,) = scan_batches(file.readinto)
        assert [c.kind for c in block.corruptions] == [Damage.TORN_TAIL]

    # From its second byte on the same length reads as 40 MB, which might be.
    within(128, read)


# ------------------------------------------------------------------------------------------------------- headers files


def headers_file(*frames: tuple[bytes, bytes, int]) -> bytes:
    """Of frames of a kind, a payload and the size that it claims."""
    file = b"TGHEADER" + struct.pack("<H", 1)
    for kind, payload, plain_size in frames:
        head = struct.pack("<cII", kind, len(payload), plain_size)
        file += head + struct.pack("<I", crc32c(head + payload)) + payload
    return file


def broken(file: bytes) -> bool:
    *_, last = HeadersReader(io.BytesIO(file).readinto).blocks()
    return [c.kind for c in last.corruptions] == [Damage.FORM]


def test_143_bytes_of_a_headers_file_that_claim_128_megabytes() -> None:
    for kind in (b"K", b"R"):
        file = headers_file((kind, b"x" * 100, 128 << 20))
        assert len(file) < 143
        within(16, lambda file=file: _holds(broken(file)))


def test_a_headers_file_of_frames_that_unpack_to_megabytes() -> None:
    """Each may; together they are more than is read of such a file, whether they keep batches or tell of damage."""
    kept = struct.pack("<qI", 0, 4 * MEGABYTE) + bytes(4 * MEGABYTE)
    frames = [(b"K", zstd(struct.pack("<q", at) + kept[8:]), len(kept)) for at in range(100)]
    within(32, lambda: _holds(broken(headers_file(*frames))))
    damage = b'{"kind": "crc", "position": 1, "end_position": 2, "detail": ""},' * 60_000
    rows = struct.pack("<I", 0) + b"\0" * 18
    plain = rows + b"[" + damage[:-1] + b"]"
    assert len(plain) < 4 * MEGABYTE
    within(96, lambda: _holds(broken(headers_file(*[(b"R", zstd(plain), len(plain))] * 100))))


def test_a_headers_file_of_blocks_that_are_all_alike() -> None:
    """Each tells of 4,096 batches in a hundred bytes."""
    alike = b"".join(batch(0, record(0, None, b"x"), 1) for _ in range(4096))
    written: list[bytes] = []
    write_headers(io.BytesIO(alike).readinto, written.append)
    head, block, _ = b"".join(written[:-2]), written[-2], written[-1]
    assert len(block) < 300
    file = head + block * 2_000

    def read() -> None:
        blocks = [b.headers for b in HeadersReader(io.BytesIO(file).readinto).blocks()]
        assert 0 < sum(map(len, blocks)) < 2_000_000

    within(128, read)


# --------------------------------------------------------------------------------------------------------- small files


def test_a_checkpoint_of_nothing_but_line_ends_or_words() -> None:
    for line in (b"\n", b"\r", b"x\n", b"x ", b"\xff"):
        data = b"0\n1\n" + line * (16 * MEGABYTE // len(line))

        def read(data: bytes = data) -> None:
            for parse in (parse_offset_checkpoint, parse_leader_epoch_checkpoint):
                found = parse(data)
                assert found.entries == ()
                assert 0 < len(found.corruptions) <= PLACES_KEPT + 2

        within(48, read)


def test_a_checkpoint_of_more_partitions_than_a_disk_has() -> None:
    data = b"0\n4000000\n" + b"a 0 1\n" * 4_000_000

    def read() -> None:
        found = parse_offset_checkpoint(data)
        assert len(found.entries) == MAX_ENTRIES
        assert Damage.NOT_READ in {c.kind for c in found.corruptions}

    within(96, read)


def test_a_transaction_index_of_versions_that_nobody_has() -> None:
    data = b"\xff" * (34 << 18)

    def read() -> None:
        found = parse_transaction_index(data)
        assert len(found.entries) == 1 << 18
        assert len(found.corruptions) == PLACES_KEPT + 1
        assert found.corruptions[-1].end_position == len(data)

    within(96, read)


def test_properties_and_json_that_are_larger_than_any() -> None:
    lines = b"".join(b"%x=\n" % at for at in range(1 << 20))
    arrays = b'{"a":[' + b"[]," * (4 << 20) + b"[]]}"

    def read() -> None:
        for found in (parse_meta_properties(lines), parse_meta_properties(b"x\n" * MEGABYTE)):
            assert Damage.NOT_READ in {c.kind for c in found.corruptions}
        assert [c.kind for c in parse_quorum_state(arrays).corruptions] == [Damage.NOT_READ]

    within(16, read)


# --------------------------------------------------------------------------------------------------------- whole files


def test_files_that_are_larger_than_any_that_is_read_whole(tmp_path: Path) -> None:
    for name in (f"{0:020d}.snapshot", f"{0:020d}.index"):
        with (tmp_path / name).open("wb") as file:
            file.seek(LARGEST_FILE_READ_WHOLE)
            file.write(b"x")
    root = local(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())

    def read() -> None:
        for name in names:
            with pytest.raises(OSError, match="more than the 67108864 that are read"):
                (root / name).read_bytes()
        assert [name for name, _ in unreadable(root, ".", names)] == names

    within(16, read)


def test_a_sparse_manifest(tmp_path: Path) -> None:
    with (tmp_path / MANIFEST_NAME).open("wb") as file:
        file.truncate(3 << 30)

    def read() -> None:
        with pytest.raises(SnapshotError, match="more than the 268435456 that are read"):
            open_snapshot(tmp_path)

    within(32, read)


# ------------------------------------------------------------------------------------------------------- the documents


def test_the_guide_tells_the_limits() -> None:
    text = LIMITS.read_text(encoding="utf-8").replace(",", "")
    user, own = Allowance(), of_internal_topic()
    told = {
        f"{MAX_PLAIN_BYTES // MEGABYTE} MiB",
        f"{FREE_PLAIN_BYTES // MEGABYTE} MiB",
        f"{PLAIN_FOR_PACKED} times",
        f"{own.bytes_each} times",
        f"{user.records} records",
        f"{own.records} records",
        f"{user.records_each} for each byte",
        f"{own.values} values",
        f"{own.values_each} for each byte",
        f"{own.records_each} for each byte",
        f"{MAX_INTERNAL_BYTES // MEGABYTE} MiB",
        f"{LARGEST_BATCH // MEGABYTE} MiB",
        f"{LARGEST_FILE_READ_WHOLE // MEGABYTE} MiB",
        f"{LARGEST_TEXT_READ_WHOLE // MEGABYTE} MiB",
        f"{LARGEST_FILE_OF_KAFKA} bytes",
        f"{MAX_ENTRIES} entries",
        f"{PLACES_KEPT} places",
    }
    assert [words for words in sorted(told) if words not in text] == []


def _holds(value: bool) -> None:
    assert value
