"""Salvage: what is taken, what of it survived all the same, and that Kafka reads what was written."""

import base64
import json
import subprocess
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.derivation.damage import copy_of, edit
from tests.java.libraries import classpath, tool
from tests.kafka_log.writing import marker
from tests.oracle.kafka import running
from tests.snapshots.headers_copies import headers_copy
from tidegauge.cli.simulate import scenario_named, simulate
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.records import Record, RecordBatch
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.recovery.salvage import salvage
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.snapshots.errors import SnapshotError

TRANSACTIONAL = 0x10


def batch(
    base: int, *values: str, epoch: int = 0, producer: tuple[int, int, int] = (-1, -1, -1), bits: int = 0
) -> bytes:
    """Records with these values from an offset on. `producer`: id, epoch, first sequence."""
    records = tuple(
        Record(offset=base + at, timestamp=1_700_000_000_000 + at, key=None, value=value.encode())
        for at, value in enumerate(values)
    )
    return write_batch(
        RecordBatch(
            base_offset=base, last_offset=base + len(values) - 1, partition_leader_epoch=epoch, crc=0, attributes=bits,
            base_timestamp=1_700_000_000_000, max_timestamp=1_700_000_000_000 + len(values) - 1,
            producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2], records=records,
        )
    )  # fmt: skip


def snapshot(root: Path, **logs: list[bytes]) -> Path:
    for broker, batches in logs.items():
        directory = root / broker.replace("_", "-") / "orders-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    return root


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]


def same(out: Path) -> dict[str, tuple[str, int] | None]:
    """Value -> how it survived, and at which offset."""
    return {
        base64.b64decode(r["value"]).decode(): (r["duplicate_of"]["by"], r["duplicate_of"]["offset"])
        if r["duplicate_of"]
        else None
        for r in lines(out)
    }


COMMON = batch(0, "first", "second", producer=(7, 0, 0))


def test_each_record_is_told_whether_it_survived_and_how(tmp_path: Path) -> None:
    old = [
        COMMON,
        batch(2, "sent again", "lost", producer=(7, 0, 2)),
        batch(4, "written anew", "twice", "twice"),
        batch(7, "other under one sequence", producer=(8, 0, 0)),
    ]
    new = [
        COMMON,
        batch(2, "twice", epoch=1),
        batch(3, "sent again", epoch=1, producer=(7, 0, 2)),
        batch(4, "written anew", epoch=1, producer=(9, 0, 0)),
        batch(5, "something else", epoch=1, producer=(8, 0, 0)),
    ]
    root = snapshot(tmp_path / "s", broker_1=old, broker_2=new)
    saved = salvage(root, topic="orders", partition=0, out=tmp_path / "out")
    assert (saved.broker_id, saved.start_offset, saved.end_offset, saved.survivors) == (1, 2, 8, (2,))
    assert same(tmp_path / "out") == {
        "sent again": ("sequence", 3),
        "lost": None,
        "written anew": ("content", 4),
        "twice": None,  # the second of two, of which one survived
        "other under one sequence": None,
    }
    assert saved.duplicates == {"batch": 0, "sequence": 1, "content": 2}
    assert saved.to_produce_again == 3
    told = json.loads((tmp_path / "out" / "salvage.json").read_text())
    assert (told["records"], told["to_produce_again"], told["survivors"]) == (6, 3, [2])


def test_what_another_dead_replica_holds_too_has_not_survived(tmp_path: Path) -> None:
    old, new = [COMMON, batch(2, "x")], [COMMON, batch(2, "y", epoch=1)]
    root = snapshot(tmp_path / "s", broker_1=old, broker_2=new, broker_3=old)
    saved = salvage(root, topic="orders", partition=0, out=tmp_path / "out")
    assert (saved.broker_id, saved.survivors, saved.to_produce_again) == (1, (2,), 1)
    assert [(r["survives_elsewhere"], r["duplicate_of"]) for r in lines(tmp_path / "out")] == [(True, None)]


def test_a_record_of_an_aborted_transaction_survived_for_nobody_and_is_not_to_be_produced_again(tmp_path: Path) -> None:
    aborted = batch(2, "taken back", producer=(7, 0, 2), bits=TRANSACTIONAL)
    abort = marker(3, key=b"\0\0\0\0", producer_id=7, producer_epoch=0)
    old = [COMMON, aborted, abort, batch(4, "wanted")]
    there = batch(2, "wanted", epoch=1, producer=(9, 0, 0), bits=TRANSACTIONAL)
    gone = marker(3, key=b"\0\0\0\0", producer_id=9, producer_epoch=0, leader_epoch=1)
    root = snapshot(tmp_path / "s", broker_1=old, broker_2=[COMMON, there, gone])
    saved = salvage(root, topic="orders", partition=0, out=tmp_path / "out", broker=1)
    assert [(r["outcome"], r["duplicate_of"]) for r in lines(tmp_path / "out")] == [("aborted", None), (None, None)]
    assert (saved.records, saved.aborted, saved.to_produce_again) == (2, 1, 1)
    (log,) = (tmp_path / "out" / "orders-0").glob("*.log")
    assert log.read_bytes() == b"".join([aborted, abort, old[3]])


def test_two_replicas_that_each_hold_something_need_a_word(tmp_path: Path) -> None:
    root = snapshot(
        tmp_path / "s",
        broker_1=[COMMON, batch(2, "x")],
        broker_2=[COMMON, batch(2, "y", epoch=2)],
        broker_3=[COMMON, batch(2, "z", epoch=1)],
    )
    with pytest.raises(SnapshotError, match=r"Brokers 1, 3 each hold .* --broker ID"):
        salvage(root, topic="orders", partition=0, out=tmp_path / "out")
    assert salvage(root, topic="orders", partition=0, out=tmp_path / "out", broker=3).records == 1


def test_what_a_dead_disk_alone_holds_is_taken_though_it_leads(tmp_path: Path) -> None:
    root = snapshot(tmp_path / "s", broker_1=[COMMON, batch(2, "x", epoch=1)], broker_2=[COMMON])
    saved = salvage(root, topic="orders", partition=0, out=tmp_path / "out")
    assert (saved.broker_id, saved.start_offset, saved.survivors, saved.to_produce_again) == (1, 2, (2,), 1)


def test_a_damaged_batch_is_left_out_and_named(golden: Golden, tmp_path: Path) -> None:
    copy = copy_of(golden("unclean-before"), tmp_path / "copy", "orders-0")
    log = max((copy / "broker-1" / "orders-0").glob("*.log"))
    rows, _ = scan_buffer(log.read_bytes())
    last = rows[-1]
    edit(log, lambda data: data.__setitem__(int(last["position"]) + 70, data[int(last["position"]) + 70] ^ 1))
    saved = salvage(copy, topic="orders", partition=0, out=tmp_path / "out", start=800, broker=1)
    assert saved.records == 700 - int(last["record_count"])
    assert saved.unreadable == (f"offsets {last['base_offset']}..{last['last_offset']}: the checksum is wrong",)


def test_a_batch_of_a_survivor_that_cannot_be_compared_is_named(tmp_path: Path) -> None:
    kept = bytearray(batch(2, "kept", epoch=2))
    kept[-1] ^= 1
    root = snapshot(
        tmp_path / "s",
        broker_1=[COMMON, batch(2, "x", epoch=1)],
        broker_2=[COMMON, batch(2, "y", epoch=2), bytes(kept)],
    )
    saved = salvage(root, topic="orders", partition=0, out=tmp_path / "out", broker=1)
    assert [told.split(": ")[0] for told in saved.survivors_unreadable] == ["broker 2, offsets 2..2"]
    assert json.loads((tmp_path / "out" / "salvage.json").read_text())["survivors_unreadable"]


def test_a_headers_snapshot_has_nothing_to_salvage(golden: Golden, tmp_path: Path) -> None:
    copy = copy_of(golden("unclean-before"), tmp_path / "copy", "orders-0")
    headers_copy(copy, tmp_path / "headers")
    with pytest.raises(SnapshotError, match=r"captured with --mode headers.* orders-0 .*--mode full") as raised:
        salvage(tmp_path / "headers", topic="orders", partition=0, out=tmp_path / "out", broker=1)
    assert str(tmp_path / "headers") in str(raised.value)
    assert not (tmp_path / "out").exists()
    full = salvage(copy, topic="orders", partition=0, out=tmp_path / "full", start=800, broker=1)
    assert full.records == 700


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_an_unclean_election_lost_is_what_is_salvaged(tmp_path: Path, seed: int) -> None:
    assert "unclean-election" in SCENARIOS
    simulate(scenario_named("unclean-election"), seed=seed, out=tmp_path / "sim")
    directory = tmp_path / "sim" / "b-is-elected"
    truth = json.loads((directory / "TRUTH.json").read_text())
    lost = [o for x in truth["losses"] if x["committed"] for o in range(x["start_offset"], x["end_offset"])]
    assert lost
    saved = salvage(directory, topic="orders", partition=0, out=tmp_path / "out")
    again = [r["offset"] for r in lines(tmp_path / "out") if r["duplicate_of"] is None]
    assert again == lost
    assert saved.to_produce_again == len(lost)
    # Acknowledged and lost: by value, so that no offset has to be believed.
    acknowledged = Counter(
        (x["base_offset"] + at, digest)
        for x in truth["acknowledged"]
        if x["partition"] == "orders-0" and x["leader_epoch"] == lines(tmp_path / "out")[0]["leader_epoch"]
        for at, digest in enumerate(x["digests"])
        if x["base_offset"] + at in lost
    )
    found = Counter((r["offset"], zlib.crc32(base64.b64decode(r["value"]))) for r in lines(tmp_path / "out"))
    assert acknowledged
    assert acknowledged - found == Counter()


@pytest.mark.slow
@pytest.mark.jvm
def test_kafka_s_dump_tool_and_log_loader_read_what_was_salvaged(golden: Golden, tmp_path: Path) -> None:
    source = golden("unclean-before")
    saved = salvage(source, topic="payments", partition=0, out=tmp_path / "out")
    target = tmp_path / "out" / "payments-0"
    (log,) = target.glob("*.log")
    done = subprocess.run(
        [
            tool("java"), "-Xmx256m", "-XX:+UseSerialGC", "-Dlog4j2.level=OFF", "-cp", classpath("kafka-tools-4.3"),
            "org.apache.kafka.tools.DumpLogSegments", "--files", str(log),
        ],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    printed = [line for line in done.stdout.splitlines() if line.startswith("baseOffset:")]
    rows, damaged = scan_buffer(log.read_bytes())
    assert not damaged
    assert len(printed) == len(rows) > 1
    assert all("isvalid: true" in line for line in printed)
    with running() as oracle:
        kafka = oracle.ask(
            {
                "job": "load", "directory": str(target), "name": "payments-0", "clean": True,
                "log_start": int(rows[0]["base_offset"]), "recovery_point": 0, "high_watermarks": [], "now_ms": 0,
                "remote": False, "keep_snapshots": True, "with_batches": False,
            }
        )  # fmt: skip
    assert "error" not in kafka, kafka
    assert (kafka["log_start"], kafka["log_end"]) == (saved.start_offset, int(rows[-1]["last_offset"]) + 1)
    assert [e for e, _ in kafka["epochs"]] == sorted({int(row["partition_leader_epoch"]) for row in rows})


def test_a_replica_without_a_log_has_nothing_to_salvage(tmp_path: Path) -> None:
    """A broker that lost its logs keeps the directory."""
    root = snapshot(tmp_path / "s", broker_1=[COMMON], broker_2=[COMMON])
    (root / "broker-1" / "orders-0" / f"{0:020d}.log").unlink()
    (root / "broker-1" / "orders-0" / f"{0:020d}.timeindex").write_bytes(b"")
    with pytest.raises(SnapshotError, match=r"nothing of offsets 0 and above.*it holds no batch at all"):
        salvage(root, topic="orders", partition=0, broker=1, start=0, out=tmp_path / "out")
    assert salvage(root, topic="orders", partition=0, broker=2, out=tmp_path / "out").records == 2
