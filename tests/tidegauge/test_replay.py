"""What a replay decides, without a cluster: which live record is which, what is left out, what a journal remembers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.kafka_log.writing import marker
from tests.tidegauge.test_salvage import COMMON, TRANSACTIONAL, batch, snapshot
from tidegauge.cli.main import main
from tidegauge.kafka_log.batch_writer import write_batch
from tidegauge.kafka_log.records import Record, RecordBatch, read_batch
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.recovery.comparison import Compared, Comparison, Present, Wanted, key_digest
from tidegauge.recovery.duplicates import content_of
from tidegauge.recovery.replay_batches import BatchLimits, groups, packed_bytes
from tidegauge.recovery.replay_journal import JOURNAL, Journal, ProducerRun, SentBatch, Target, read_journal
from tidegauge.recovery.replay_plan import Asked, Candidate, LeftOut, Limits, check_target, limits_of, reasons
from tidegauge.recovery.salvage import Origin, salvage
from tidegauge.recovery.salvaged import read_salvage
from tidegauge.snapshots.errors import AuditError, SnapshotError

NOW = 1_700_000_000_000


def wanted(offset: int, value: str, *, key: bytes | None = None, **more: Any) -> Wanted:
    record = Record(offset=offset, timestamp=0, key=key, value=value.encode())
    plain = {"timestamp": 5, "leader_epoch": 0, "sequenced": None, "key": key_digest(key)}
    return Wanted(offset=offset, content=content_of(record), **(plain | more))


def compared(those: list[Wanted], *batches: bytes) -> Compared:
    comparison = Comparison(those)
    data = b"".join(batches)
    for row in scan_buffer(data)[0]:
        comparison.see(row, data[row["position"] : row["position"] + row["size_bytes"]])
    return comparison.result()


def keyed(base: int, key: bytes, value: str) -> bytes:
    record = Record(offset=base, timestamp=9, key=key, value=value.encode())
    return write_batch(
        RecordBatch(
            base_offset=base, last_offset=base, partition_leader_epoch=1, crc=0, attributes=0, base_timestamp=9,
            max_timestamp=9, producer_id=-1, producer_epoch=-1, base_sequence=-1, records=(record,),
        )
    )  # fmt: skip


def test_the_strongest_way_to_be_the_same_comes_first() -> None:
    those = [
        wanted(3, "x"),
        wanted(4, "x", sequenced=(7, 0, 12)),
        wanted(5, "x", timestamp=NOW + 2),
        wanted(6, "x"),
        wanted(7, "x"),
    ]
    found = compared(
        those,
        batch(2, "x"),
        batch(3, "x", epoch=0),
        batch(4, "other", "x", epoch=1),
        batch(6, "other", "other", "x", epoch=1, producer=(7, 0, 10)),
        batch(9, "other", "other", "x", epoch=1),
    ).present
    assert {offset: (one.offset, one.way) for offset, one in found.items()} == {
        3: (3, "place"),
        4: (8, "sequence"),
        5: (11, "timestamp"),
        6: (2, "content"),
        7: (5, "content"),
    }


def test_one_live_record_stands_for_one_and_an_aborted_one_for_none() -> None:
    abort = marker(3, key=b"\0\0\0\0", producer_id=9, producer_epoch=0, leader_epoch=1)
    aborted = batch(2, "gone", epoch=1, producer=(9, 0, 0), bits=TRANSACTIONAL)
    undecided = batch(4, "open", epoch=1, producer=(8, 0, 0), bits=TRANSACTIONAL)
    those = [wanted(10, "gone"), wanted(11, "open"), wanted(12, "twice"), wanted(13, "twice"), wanted(14, "twice")]
    found = compared(those, aborted, abort, undecided, batch(5, "twice", "twice", epoch=1)).present
    assert set(found) == {11, 12, 13}
    assert (found[11].open_transaction, found[12].open_transaction) == (True, False)


def test_what_survived_when_it_was_salvaged_stands_for_no_other() -> None:
    found = compared([wanted(10, "x", survived_offset=2), wanted(11, "x")], batch(2, "x", epoch=1))
    assert found.present == {}


def test_of_many_equal_records_no_more_are_kept_than_can_stand_for_one() -> None:
    comparison = Comparison([wanted(1000, "x"), wanted(1001, "x")])
    data = batch(0, *["x"] * 500, epoch=1)
    comparison.see(scan_buffer(data)[0][0], data)
    assert len(comparison.result().present) == 2
    assert sum(len(same.seen) for same in comparison._by_content.values()) == 2


@pytest.mark.parametrize(
    ("live", "newer"),
    [
        ([], set()),
        ([keyed(5, b"k", "another")], {10, 11}),
        ([keyed(5, b"k", "first")], set()),
        ([keyed(5, b"k", "second")], {10}),
        ([keyed(5, b"k", "first"), keyed(6, b"k", "first")], {10, 11}),
        ([keyed(5, b"other", "another")], set()),
    ],
)
def test_a_key_has_a_newer_value_where_anything_else_was_written_since(live: list[bytes], newer: set[int]) -> None:
    found = compared([wanted(10, "first", key=b"k"), wanted(11, "second", key=b"k")], *live)
    assert found.newer_values - set(found.present) == newer - set(found.present)


def candidate(offset: int, **more: Any) -> Candidate:
    plain: dict[str, Any] = {
        "timestamp": NOW, "outcome": None, "survived": None, "has_key": True, "packed_bytes": 100,
    }  # fmt: skip
    return Candidate(offset=offset, **(plain | more))


def test_each_record_that_is_left_out_has_its_reason() -> None:
    those = [
        candidate(0),
        candidate(1, outcome="aborted"),
        candidate(2, outcome="open"),
        candidate(3, outcome="committed", survived="batch"),
        candidate(4),
        candidate(5),
        candidate(6),
        candidate(7, packed_bytes=1001),
        candidate(8, has_key=False),
        candidate(9, timestamp=NOW - 11),
        candidate(10, outcome="committed"),
        candidate(11, survived="content"),
    ]
    present = {
        4: Present(offset=40, way="content", open_transaction=False),
        5: Present(offset=50, way="sequence", open_transaction=True),
    }
    there = Compared(present=present, newer_values={6})
    limits = Limits(compacted=True, most_bytes=1000, oldest_ms=NOW - 10)
    found = reasons(those, there, produced_before={0}, limits=limits, asked=Asked())
    assert [found.get(one.offset) for one in those] == [
        LeftOut.PRODUCED_BEFORE, LeftOut.ABORTED, LeftOut.OPEN_TRANSACTION, LeftOut.SURVIVED, LeftOut.PRESENT,
        LeftOut.PRESENT_OPEN, LeftOut.NEWER_VALUE, LeftOut.TOO_LARGE, LeftOut.NO_KEY, LeftOut.TIMESTAMP, None,
        LeftOut.SURVIVED,
    ]  # fmt: skip
    everything = Asked(with_aborted=True, with_open=True, same_content=True, newer_values=True)
    found = reasons(those, there, produced_before=(), limits=limits, asked=everything)
    assert set(found) == {3, 5, 7, 8, 9}


def test_limits_are_those_of_the_topic_s_settings() -> None:
    settings = {
        "cleanup.policy": "compact, delete", "max.message.bytes": "77", "message.timestamp.before.max.ms": "10",
        "message.timestamp.after.max.ms": "20", "retention.ms": "1000",
    }  # fmt: skip
    assert limits_of(settings, now_ms=NOW) == Limits(
        compacted=True, most_bytes=77, oldest_ms=NOW - 10, newest_ms=NOW + 20, retained_since_ms=NOW - 1000
    )
    arrival = limits_of({**settings, "message.timestamp.type": "LogAppendTime"}, now_ms=NOW)
    assert arrival.append_time
    assert arrival.oldest_ms < 0 < NOW < arrival.newest_ms


@pytest.mark.parametrize("name", ["__consumer_offsets", "a/b", "..", "\x1b[2J", "x" * 250])
def test_names_that_no_topic_of_a_user_has_are_refused(name: str) -> None:
    origin = Origin(cluster="c", cluster_id="i", snapshot_id="s", topic="orders", topic_id=None, partition=0)
    with pytest.raises(SnapshotError):
        check_target(origin, cluster_id="i", topic_id=None, place=TopicPartition(name, 0), elsewhere=True)


def test_a_snapshot_without_a_cluster_s_id_goes_nowhere_unless_it_is_asked_for() -> None:
    origin = Origin(cluster="c", cluster_id=None, snapshot_id="s", topic="orders", topic_id=None, partition=0)
    place = TopicPartition("orders", 0)
    with pytest.raises(SnapshotError, match="--elsewhere"):
        check_target(origin, cluster_id="i", topic_id=None, place=place, elsewhere=False)
    check_target(origin, cluster_id="i", topic_id=None, place=place, elsewhere=True)


# ------------------------------------------------------------------------------------------------------------- records


def test_a_header_s_name_that_is_no_text_comes_back_byte_for_byte() -> None:
    record = Record(offset=0, timestamp=1, key=None, value=None, headers=(("\udcff\udcfe", b"v"), ("a", None)))
    data = write_batch(
        RecordBatch(
            base_offset=0, last_offset=0, partition_leader_epoch=0, crc=0, attributes=0, base_timestamp=1,
            max_timestamp=1, producer_id=-1, producer_epoch=-1, base_sequence=-1, records=(record,),
        )
    )  # fmt: skip
    assert b"\xff\xfe" in data
    read = read_batch(data)
    assert isinstance(read, RecordBatch)
    assert read.records == (record,)


def test_records_are_grouped_by_bytes_and_number_and_a_large_one_is_alone() -> None:
    those = [Record(offset=n, timestamp=1, key=None, value=b"x" * (5000 if n == 3 else 10)) for n in range(8)]
    found = list(groups(those, BatchLimits(most_bytes=1 << 20, most_records=3, wanted_bytes=1000)))
    assert [[record.offset for record in group] for group in found] == [[0, 1, 2], [3], [4, 5, 6], [7]]
    assert packed_bytes(those[3], 1000) < 1000  # compressed
    assert packed_bytes(those[3], 1 << 20) > 5000


# ------------------------------------------------------------------------------------------------------------- journal


def run_of(producer_id: int = 7) -> ProducerRun:
    target = Target(cluster_id="c", topic_id="t", place=TopicPartition("orders", 0))
    return ProducerRun(target=target, producer_id=producer_id, producer_epoch=0, end_offset=5)


def sent_batch(sequence: int, *offsets: int) -> SentBatch:
    return SentBatch(sequence=sequence, offsets=offsets, acknowledged=False, offset=None)


def test_a_journal_remembers_what_was_sent_settled_and_dropped(tmp_path: Path) -> None:
    first, second = run_of(7), run_of(8)
    with Journal(tmp_path) as journal:
        journal.begin(first)
        journal.send(first, sent_batch(0, 10, 11, 14))
        journal.sent(first, 0, 100)
        journal.send(first, sent_batch(3, 15))
        journal.begin(second)
        journal.send(second, sent_batch(0, 20))
        journal.dropped(second, 0)
    with (tmp_path / JOURNAL).open("a") as file:
        file.write('{"sent": 3, "pro')  # a death
    runs = read_journal(tmp_path)
    assert [run.producer_id for run in runs] == [7, 8]
    assert runs[0].batches[0] == SentBatch(sequence=0, offsets=(10, 11, 14), acknowledged=True, offset=100)
    assert [batch.sequence for run in runs for batch in run.open_batches] == [3]
    with Journal(tmp_path) as journal:
        journal.sent(first, 3, 103)
    assert [batch for run in read_journal(tmp_path) for batch in run.open_batches] == []
    assert (tmp_path / JOURNAL).stat().st_mode & 0o777 == 0o600


def test_two_replays_of_one_directory_do_not_run_at_once(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(AuditError, match="Another replay"), Journal(tmp_path):
        pass


def test_a_journal_that_was_edited_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    for text in (
        '{"replay": 1}\n',
        "[]\n",
        '{"sent": 0, "producer_id": 1, "offset": 2}\n',
        "\x00\n",
        '{"send": 1e999}\n',
    ):
        (tmp_path / JOURNAL).write_text(text)
        with pytest.raises(SnapshotError, match="line 1"):
            read_journal(tmp_path)


def test_a_journal_is_written_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("")
    (tmp_path / JOURNAL).hardlink_to(tmp_path / "victim")
    with pytest.raises(SnapshotError, match="hard link"), Journal(tmp_path):
        pass
    (tmp_path / JOURNAL).unlink()
    (tmp_path / JOURNAL).symlink_to(tmp_path / "victim")
    with pytest.raises(OSError), Journal(tmp_path):
        pass


# --------------------------------------------------------------------------------------------------- salvaged directory


@pytest.fixture
def salvaged(tmp_path: Path) -> Path:
    root = snapshot(
        tmp_path / "s", broker_1=[COMMON, batch(2, "a", "b", "c")], broker_2=[COMMON, batch(2, "n", epoch=1)]
    )
    salvage(root, topic="orders", partition=0, out=tmp_path / "saved")
    return tmp_path / "saved"


def test_what_was_salvaged_is_read_again(salvaged: Path) -> None:
    found = read_salvage(salvaged)
    assert (found.origin.topic, found.origin.partition, found.count) == ("orders", 0, 3)
    assert [(one.record.offset, one.record.value) for one in found.records()] == [(2, b"a"), (3, b"b"), (4, b"c")]


def lines(change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def changed(directory: Path) -> None:
        path = directory / "records.jsonl"
        path.write_text("".join(change(path.read_text().splitlines(keepends=True))))

    return changed


def result(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def changed(directory: Path) -> None:
        path = directory / "salvage.json"
        told = json.loads(path.read_text())
        change(told)
        path.write_text(json.dumps(told))

    return changed


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a record is missing": (lines(lambda found: found[:-1]), "counts 3"),
    "the last line is cut": (lines(lambda found: [*found[:-1], found[-1][:40]]), "line 3"),
    "a value was edited": (lines(lambda found: [found[0].replace('"YQ=="', '"Yg=="'), *found[1:]]), "line 1"),
    "a record comes twice": (lines(lambda found: [found[0], *found]), "line 2"),
    "it is no JSON": (lines(lambda found: ["\x1b[2J{\n"]), "line 1"),
    "another schema": (result(lambda told: told.update(schema_version=9)), "schema version"),
    "no origin": (result(lambda told: told.pop("origin")), "origin is missing"),
    "a number where a name belongs": (result(lambda told: told["origin"].update(topic=5)), "topic must be a text"),
    "no result": (lambda directory: (directory / "salvage.json").unlink(), "salvage.json"),
    "no records": (lambda directory: (directory / "records.jsonl").unlink(), "records.jsonl"),
}


@pytest.mark.parametrize(("damage", "words"), DAMAGE.values(), ids=DAMAGE)
def test_a_directory_that_is_not_as_it_was_written_is_refused(
    salvaged: Path, damage: Callable[[Path], None], words: str
) -> None:
    damage(salvaged)
    with pytest.raises(SnapshotError, match=words):
        list(read_salvage(salvaged).records())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--produce", "--dry-run"), "contradict"),
        (("--loss", "L-1"), "--produce"),
        (("--by", "ada"), "--loss"),
        (("--rate", "fast"), "500"),
        (("--rate", "0"), "500"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anybody_is_asked(
    salvaged: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = CliRunner().invoke(main, ["replay", str(salvaged), "--bootstrap", "127.0.0.1:1", *arguments])
    assert done.exit_code == 2
    assert words in done.stderr
