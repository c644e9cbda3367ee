"""A headers file against the scan of the log that it stands for; nothing of a record in it; broken ones."""

import io
import json
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import cramjam
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.kafka_log.writing import batch, marker, old_entry, record
from tidegauge.kafka_log.allowance import of_internal_topic
from tidegauge.kafka_log.corruption import Corruption, Damage, damage_of, damage_values
from tidegauge.kafka_log.crc32c import crc32c
from tidegauge.kafka_log.headers_file import (
    END_FRAME_BYTES,
    HEADERS_FILE_DAMAGE,
    HeadersReader,
    kept_records,
    log_size_bytes,
    scan_headers,
    sound_end_marker,
    write_headers,
)
from tidegauge.kafka_log.scan import BATCH_HEADER, ScanBlock, scan_batches, scan_buffer

Golden = Callable[[str], Path]
SECRET = b"a user's secret that stays at home"


def headers_of(log: bytes) -> bytes:
    file = io.BytesIO()
    assert write_headers(io.BytesIO(log).readinto, file.write) == len(log)
    return file.getvalue()


def read(blocks: Iterator[ScanBlock]) -> list[tuple[bytes, tuple[Corruption, ...]]]:
    return [(block.headers.tobytes(), block.corruptions) for block in blocks]


def same(log: bytes) -> bool:
    file = headers_of(log)
    assert log_size_bytes(file[-END_FRAME_BYTES:]) == len(log)
    return read(scan_headers(io.BytesIO(file).readinto)) == read(scan_batches(io.BytesIO(log).readinto))


def kept(file: bytes) -> list[bytes]:
    return [b for block in HeadersReader(io.BytesIO(file).readinto).blocks() for b in block.kept.values()]


# ----------------------------------------------------------------------------------------------------------- the same


@pytest.mark.parametrize("capture", ["healthy", "unclean-before", "hanging-txn", "soak-01", "tiered", "epochs"])
def test_a_golden_log_and_its_headers_scan_alike(golden: Golden, capture: str) -> None:
    logs = sorted(golden(capture).glob("broker-2/*/*.log*"))
    assert len(logs) > 10
    for path in logs:
        assert same(path.read_bytes()), path


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_mutated_log_and_its_headers_scan_alike(golden: Golden, data: st.DataObject) -> None:
    logs = [p for p in sorted(golden("healthy").glob("broker-2/*/*.log")) if 0 < p.stat().st_size < 200_000]
    log = bytearray(data.draw(st.sampled_from(logs)).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(log) - 1))
        match data.draw(st.sampled_from(["flip", "cut out", "zeros", "repeat"])):
            case "flip":
                log[at] ^= 1 << data.draw(st.integers(0, 7))
            case "cut out":
                del log[at : at + data.draw(st.integers(1, 300))]
            case "zeros":
                log[at : at + 200] = bytes(len(log[at : at + 200]))
            case _:
                log[at:at] = log[at : at + 500]
        if not log:
            break
    assert same(bytes(log))


@settings(max_examples=150)
@given(st.binary(max_size=300) | st.lists(st.sampled_from([b"\0", b"\1", b"\2", b"\0\0\0\x3d"])).map(b"".join))
def test_any_bytes_and_their_headers_scan_alike(log: bytes) -> None:
    assert same(log)


def test_an_empty_log_has_an_empty_headers_file() -> None:
    assert same(b"")
    (block,) = scan_headers(io.BytesIO(headers_of(b"")).readinto)
    assert (len(block.headers), block.corruptions) == (0, ())


def test_fields_at_their_limits_come_back() -> None:
    limit = {"leader_epoch": 2**31 - 1, "producer_id": 2**63 - 1, "producer_epoch": 2**15 - 1}
    times = {"base_timestamp": -(2**63), "max_timestamp": 2**63 - 1}
    log = batch(2**63 - 1, record(0, None, b"x"), 1, base_sequence=2**31 - 1, **limit, **times)
    log += batch(0, record(0, None, b"x"), 1, last_offset_delta=2**31 - 1, **limit) + old_entry(7, 1, b"x")
    assert same(log)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(-1, 3), st.integers(-1, 2**31 - 1), st.integers(1, 5), st.integers(0, 2**40)), max_size=30
    )
)
def test_producers_that_take_turns_come_back(turns: list[tuple[int, int, int, int]]) -> None:
    log, offset = b"", 0
    for producer_id, sequence, count, timestamp in turns:
        records = b"".join(record(at, None, b"x") for at in range(count))
        log += batch(offset, records, count, producer_id=producer_id, base_sequence=sequence, max_timestamp=timestamp)
        offset += count
    assert same(log)


def test_more_batches_than_a_block_holds_come_in_the_same_blocks() -> None:
    log = b"".join(batch(at, record(0, None, b"x"), 1) for at in range(10_000))
    assert same(log)
    assert [len(b.headers) for b in scan_headers(io.BytesIO(headers_of(log)).readinto)] == [4096, 4096, 1808]


def test_a_reader_may_give_as_little_as_it_likes() -> None:
    log = batch(0, record(0, None, b"x" * 500), 1) + marker(1)
    file = io.BytesIO(headers_of(log))
    dribble = read(scan_headers(lambda target: file.readinto(target[:3])))
    assert dribble == read(scan_batches(io.BytesIO(log).readinto))


# --------------------------------------------------------------------------------------------- control batches, records


def test_end_markers_are_kept_whole_wherever_they_stand() -> None:
    markers = [marker(100 * at + 99) for at in range(80)]
    filler = b"x" * 30_000  # more than the scan's buffer holds between the first and the last marker
    log = b"".join(
        batch(100 * at, record(0, None, filler), 1, last_offset_delta=98) + markers[at] for at in range(len(markers))
    )
    assert len(log) > 2 << 20
    assert kept(headers_of(log)) == markers


def test_real_end_markers_are_kept(golden: Golden) -> None:
    for path in sorted(golden("healthy").glob("broker-1/livetx-0/*.log")):
        log = path.read_bytes()
        headers, _ = scan_buffer(log)
        control = headers[headers["control_type"] >= 0]
        assert len(control)
        assert kept(headers_of(log)) == [bytes(log[r["position"] : r["position"] + r["size_bytes"]]) for r in control]


CLAIMS = {
    "a record's key and value": marker(0, key=b"\0\0\0\1" + SECRET, value=SECRET),
    "a value that goes on": marker(0, value=bytes.fromhex("000000000007") + SECRET),
    "a key that goes on": marker(0, key=bytes.fromhex("00000001") + SECRET),
    "an unknown type": marker(0, key=b"\0\0ab", value=SECRET),
    "a version of its own": marker(0, key=b"ab\0\1", value=b"cdefgh"),
    "a type of the quorum's": marker(0, key=b"\0\0\0\2", value=SECRET),
    "two records": batch(
        0, record(0, b"\0\0\0\1", bytes(6)) + record(1, b"k", SECRET), 2, attributes=0x30, producer_id=9
    ),
    "record headers": batch(
        0,
        record(0, b"\0\0\0\1", bytes(6), headers=(("h", SECRET),)),
        1,
        attributes=0x30,
        producer_id=9,
        producer_epoch=1,
    ),
    "bytes after the record": batch(
        0, record(0, b"\0\0\0\1", bytes(6)) + SECRET, 1, attributes=0x30, producer_id=9, producer_epoch=1
    ),
    "a timestamp delta": batch(
        0,
        record(0, b"\0\0\0\1", bytes(6), timestamp_delta=0x61626364),
        1,
        attributes=0x30,
        producer_id=9,
        producer_epoch=1,
    ),
}


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS.keys())
def test_a_batch_that_merely_claims_to_be_control_is_not_kept(claim: bytes) -> None:
    (row,), _ = scan_buffer(claim)
    assert row["crc_valid"] == 1
    assert sound_end_marker(claim) is None
    file = headers_of(claim)
    assert kept(file) == []
    assert same(claim)
    assert b"abcd" not in plain(file)
    assert SECRET[:8] not in plain(file)


@pytest.mark.parametrize("version", [0, 1])
def test_an_end_marker_of_either_version_is_kept(version: int) -> None:
    whole = marker(0, value=struct.pack(">hi", version, 7) + bytes(version))
    assert sound_end_marker(whole) == whole


def test_rot_that_sets_the_control_bit_carries_nothing_out() -> None:
    log = bytearray(batch(0, record(0, b"key:" + SECRET, SECRET), 1) + batch(1, record(0, None, b"x"), 1))
    log[22] ^= 0x20
    file = headers_of(bytes(log))
    (block,) = scan_headers(io.BytesIO(file).readinto)
    assert block.headers["crc_valid"].tolist() == [0, 1]
    assert block.headers["control_type"].tolist() == [-2, -1]
    assert SECRET[:4] not in plain(file)
    assert b"key:" not in plain(file)
    assert kept(file) == []


def test_damage_tells_no_bytes_of_what_it_met() -> None:
    log = batch(0, record(0, None, b"x"), 1) + SECRET * 20
    file = headers_of(log)
    (block,) = scan_headers(io.BytesIO(file).readinto)
    (damage,) = block.corruptions
    told = repr(damage)
    for number in (int.from_bytes(SECRET[8:12], "big"), SECRET[16]):
        assert f" {number}" not in told
    assert SECRET[:4] not in plain(file)


def test_golden_records_are_in_no_headers_file(golden: Golden) -> None:
    met = 0
    for path in sorted(golden("unclean-before").glob("broker-*/orders-*/*.log")):
        log = path.read_bytes()
        everything = plain(headers_of(log))
        for row in scan_buffer(log)[0]:
            body = log[row["position"] + 61 : row["position"] + row["size_bytes"]]
            assert body[4:16] not in everything
            met += 1
    assert met > 200


def plain(file: bytes) -> bytes:
    """All that can be read in a headers file."""
    blocks = list(HeadersReader(io.BytesIO(file).readinto).blocks())
    parts = [file]
    for block in blocks:
        parts += [block.headers.tobytes(), big_endian(block.headers), repr(block.corruptions).encode()]
        parts += block.kept.values()
    return b"\0".join(parts)


def big_endian(rows: NDArray[np.void]) -> bytes:
    return b"".join(np.ascontiguousarray(rows[name]).byteswap().tobytes() for name in rows.dtype.names or ())


# ------------------------------------------------------------------------------------------------------ kept otherwise


def test_batches_can_be_kept_as_others_and_rows_stay_the_logs() -> None:
    log = batch(0, record(0, b"k", SECRET), 1) + batch(1, record(0, b"k", b"left out"), 1)
    other = batch(0, record(0, b"k", b"hidden"), 1)
    file = io.BytesIO()
    write_headers(io.BytesIO(log).readinto, file.write, rewrite=lambda b: other if SECRET in b else None)
    file.seek(0)
    (block,) = HeadersReader(file.readinto).blocks()
    assert block.headers.tobytes() == scan_buffer(log)[0].tobytes()
    (_, first), (_, second) = kept_records(block, allowance=of_internal_topic())
    assert not isinstance(first, Corruption)
    assert first[0].value == b"hidden"
    assert isinstance(second, Corruption)
    assert SECRET not in plain(file.getvalue())


# ------------------------------------------------------------------------------------------------------- broken files


@cache
def sample() -> bytes:
    return headers_of(b"".join(batch(at, record(0, None, b"x"), 1) for at in range(4200)) + marker(4200) + b"\0" * 99)


@settings(max_examples=80)
@given(at=st.floats(0, 0.999), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found(at: float, bit: int) -> None:
    file = bytearray(sample())
    file[int(at * len(file))] ^= 1 << bit
    blocks = list(scan_headers(io.BytesIO(bytes(file)).readinto))
    assert {c.kind for c in blocks[-1].corruptions} & HEADERS_FILE_DAMAGE
    assert all(len(c.detail) < 300 for c in blocks[-1].corruptions)


@settings(max_examples=50)
@given(at=st.floats(0, 0.9999))
def test_a_cut_file_is_found(at: float) -> None:
    file = sample()
    *_, last = scan_headers(io.BytesIO(file[: int(at * len(file))]).readinto)
    assert last.corruptions[-1].kind is Damage.FORM


def test_bytes_after_the_end_are_found() -> None:
    *_, last = scan_headers(io.BytesIO(sample() + b"\0").readinto)
    assert last.corruptions[-1].kind is Damage.FORM


def test_another_version_is_named() -> None:
    file = bytearray(sample())
    file[8] = 9
    (block,) = scan_headers(io.BytesIO(bytes(file)).readinto)
    assert block.corruptions[0].kind is Damage.VERSION
    assert "version is 9" in block.corruptions[0].detail


@settings(max_examples=200)
@given(
    kind=st.sampled_from([b"K", b"R", b"E", b"?"]), payload=st.binary(max_size=60), plain_size=st.integers(0, 2**32 - 1)
)
def test_hostile_frames_with_a_right_checksum_do_no_harm(kind: bytes, payload: bytes, plain_size: int) -> None:
    head = kind + struct.pack("<II", len(payload), plain_size)
    file = b"TGHEADER\1\0" + head + struct.pack("<I", crc32c(head + payload)) + payload
    *_, last = scan_headers(io.BytesIO(file).readinto)
    assert last.corruptions[-1].kind is Damage.FORM


def a_frame(kind: bytes, plain: bytes) -> bytes:
    payload = bytes(cramjam.zstd.compress(plain))
    head = kind + struct.pack("<II", len(payload), len(plain))
    return head + struct.pack("<I", crc32c(head + payload)) + payload


def block_of(position: int, size: int, *, rows: int = 1, damages: object = (), offset: int = 0) -> bytes:
    """A frame of rows of which all are one and the same, as far as their columns tell."""
    values = {"position": position, "size_bytes": size, "magic": 2, "crc_valid": 1, "base_offset": offset}
    columns = (b"\1" + np.array([values.get(name, 0)], BATCH_HEADER[name]).tobytes() for name in BATCH_HEADER.names)
    return a_frame(b"R", struct.pack("<I", rows) + b"".join(columns) + json.dumps(damages).encode())


@pytest.mark.parametrize(
    ("position", "size", "rows"),
    [((1 << 63) - 1, 61, 1), (-1, 61, 1), (0, 0, 1), (0, -61, 1), (0, 1 << 31 << 4, 1), (-61, 61, 2)],
)
def test_rows_that_lie_where_no_batches_can_are_found(position: int, size: int, rows: int) -> None:
    file = b"TGHEADER\1\0" + block_of(position, size, rows=rows)
    (block,) = scan_headers(io.BytesIO(file).readinto)
    assert [c.kind for c in block.corruptions] == [Damage.FORM]
    assert "lie where no batches can" in block.corruptions[0].detail


SOUND = {
    "kind": "crc",
    "position": 0,
    "end_position": 61,
    "detail": "d",
    "start_offset": 0,
    "end_offset": 1,
    "records": 1,
}


def test_a_damage_comes_back_as_it_was() -> None:
    first, _ = scan_headers(io.BytesIO(b"TGHEADER\1\0" + block_of(0, 61, damages=[SOUND])).readinto)
    assert first.corruptions == (damage_of(SOUND),)
    assert damage_values(first.corruptions[0]) == SOUND


@pytest.mark.parametrize(
    "changed",
    [
        {"position": "0"},
        {"position": None},
        {"position": True},
        {"position": -1},
        {"end_position": 1 << 63, "position": 1},
        {"position": 62},
        {"start_offset": 0.5},
        {"records": "one"},
        {"end_offset": [1]},
        {"detail": None},
        {"detail": "half \udcff"},
        {"kind": "no such damage"},
        {"kind": []},
        {"another": 1},
        {"\udcff": 1},
    ],
    ids=str,
)
def test_a_damage_that_no_scan_tells_is_found(changed: dict[str, object]) -> None:
    file = b"TGHEADER\1\0" + block_of(0, 61, damages=[{**SOUND, **changed}])
    (block,) = scan_headers(io.BytesIO(file).readinto)
    assert [c.kind for c in block.corruptions] == [Damage.FORM]
    assert block.corruptions[0].detail.isprintable()


@given(st.binary(max_size=END_FRAME_BYTES + 2))
def test_no_end_frame_gives_no_size(data: bytes) -> None:
    assert log_size_bytes(data) is None
