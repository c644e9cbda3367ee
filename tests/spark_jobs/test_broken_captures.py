"""What of a capture's facts changes when one thing in its files is broken, and that nothing else becomes wrong."""

import builtins
import io
import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import Golden
from tests.spark_jobs.damage import batches, copy_of, edit, place, sealed, sealed_snapshot, segments, wrong
from tests.spark_jobs.pipeline import Derived, derived, derived_once

PARTITIONS: Final = (
    "__cluster_metadata-0",
    "__consumer_offsets-0",
    "__consumer_offsets-1",
    "__consumer_offsets-2",
    "live-0",
    "livetx-0",
    "txn-0",
)
REPLICA: Final = "broker-2/live-0"
TRANSACTIONAL: Final = "broker-2/livetx-0"
Break = Callable[[Path], None]


def first(d: Path) -> Path:
    return segments(d / REPLICA)[0]


def last(d: Path) -> Path:
    return segments(d / REPLICA)[-1]


def flip_in_records(d: Path) -> None:
    _, end = place(batches(first(d))[3])
    edit(first(d), lambda b: b.__setitem__(end - 5, b[end - 5] ^ 1))


def flip_in_records_of_the_last_batch(d: Path) -> None:
    _, end = place(batches(last(d))[-1])
    edit(last(d), lambda b: b.__setitem__(end - 5, b[end - 5] ^ 1))


def flip_in_records_of_the_last_batch_after_a_crash(d: Path) -> None:
    flip_in_records_of_the_last_batch(d)
    crash(d)


def other_epoch(d: Path) -> None:
    start, _ = place(batches(first(d))[3])
    edit(first(d), lambda b: struct.pack_into(">i", b, start + 12, 7))


def other_base_offset(d: Path) -> None:
    row = batches(first(d))[3]
    edit(first(d), lambda b: struct.pack_into(">q", b, place(row)[0], int(row["base_offset"]) + 1_000))


def crash(d: Path) -> None:
    (d / "broker-2/.kafka_cleanshutdown").unlink()


def cut_active(d: Path) -> None:
    edit(last(d), lambda b: b[:-37])


def cut_active_after_a_crash(d: Path) -> None:
    cut_active(d)
    crash(d)


def cut_sealed(d: Path) -> None:
    edit(segments(d / REPLICA)[1], lambda b: b[:-37])


def remove_middle_segment(d: Path) -> None:
    segments(d / REPLICA)[1].unlink()


def remove_first_segment(d: Path) -> None:
    first(d).unlink()


def swap_segments(d: Path) -> None:
    _, one, other, _ = segments(d / REPLICA)
    a, b = one.read_bytes(), other.read_bytes()
    one.write_bytes(b)
    other.write_bytes(a)


def zero_page(d: Path) -> None:
    edit(first(d), lambda b: b.__setitem__(slice(8192, 12288), bytes(4096)))


def text_log(d: Path) -> None:
    last(d).write_text("hello\n" * 100)


def text_sealed(d: Path) -> None:
    segments(d / REPLICA)[1].write_text("hello\n" * 100)


def empty_log(d: Path) -> None:
    last(d).write_bytes(b"")


def no_epoch_checkpoint(d: Path) -> None:
    (d / REPLICA / "leader-epoch-checkpoint").unlink()


def garbage_epoch_checkpoint(d: Path) -> None:
    (d / REPLICA / "leader-epoch-checkpoint").write_bytes(b"\x00\xffgarbage\n")


def raised_high_watermark(d: Path) -> None:
    p = d / "broker-2/replication-offset-checkpoint"
    p.write_text(p.read_text().replace("live 0 977", "live 0 99999"))


def bad_index_offset(d: Path) -> None:
    edit(first(d).with_suffix(".index"), lambda b: b.__setitem__(3, b[3] - 1))


def bad_index_position(d: Path) -> None:
    edit(first(d).with_suffix(".index"), lambda b: b.__setitem__(15, b[15] ^ 1))


def odd_index(d: Path) -> None:
    edit(first(d).with_suffix(".index"), lambda b: b[:-3])


def bad_time_index(d: Path) -> None:
    edit(first(d).with_suffix(".timeindex"), lambda b: b.__setitem__(31, b[31] ^ 1))


def short_time_index(d: Path) -> None:
    edit(first(d).with_suffix(".timeindex"), lambda b: b[:-12])


def txn(d: Path) -> Path:
    return sorted((d / TRANSACTIONAL).glob("*.txnindex"))[0]


def txnindex_drop(d: Path) -> None:
    edit(txn(d), lambda b: b[34:])


def txnindex_add(d: Path) -> None:
    def add(b: bytearray) -> bytes:
        version, producer_id, _, marker, _ = struct.unpack(">hqqqq", b[-34:])
        return bytes(b) + struct.pack(">hqqqq", version, producer_id, marker + 1, marker + 2, marker + 3)

    edit(txn(d), add)


def txnindex_lso(d: Path) -> None:
    edit(txn(d), lambda b: struct.pack_into(">q", b, 26, struct.unpack_from(">q", b, 26)[0] - 1))


def txnindex_removed(d: Path) -> None:
    txn(d).unlink()


def snap(d: Path, n: int = 1) -> Path:
    return sorted((d / REPLICA).glob("*.snapshot"))[n]


def snapshot_crc(d: Path) -> None:
    edit(snap(d), lambda b: b.__setitem__(12, b[12] ^ 1))


def snapshot_sequence(d: Path) -> None:
    def change(b: bytearray) -> bytearray:
        b[10 + 10 + 3] ^= 1
        return sealed_snapshot(b)

    edit(snap(d), change)


def snapshot_dropped(d: Path) -> None:
    def change(b: bytearray) -> bytearray:
        struct.pack_into(">i", b, 6, 0)
        return sealed_snapshot(b[:10])

    edit(snap(d), change)


def topic_id(d: Path) -> None:
    (d / REPLICA / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABA")


def other_bytes(d: Path) -> None:
    start, end = place(batches(first(d))[5])

    def change(b: bytearray) -> None:
        b[end - 3] ^= 0x55
        sealed(b, start, end)

    edit(first(d), change)


def duplicated(d: Path) -> None:
    row = batches(last(d))[-1]
    start, end = place(row)

    def change(b: bytearray) -> bytes:
        again = bytearray(b[start:end])
        struct.pack_into(">q", again, 0, int(row["last_offset"]) + 1)
        return bytes(b + again)

    edit(last(d), change)


def dropped_batch(d: Path) -> None:
    start, end = place(batches(first(d))[5])
    edit(first(d), lambda b: b[:start] + b[end:])


def no_checkpoints(d: Path) -> None:
    for path in (d / "broker-2").glob("*-offset-checkpoint"):
        path.unlink()


def garbage_checkpoint(d: Path) -> None:
    (d / "broker-2/replication-offset-checkpoint").write_bytes(b"0\n2\nlive 0 x\n")


def swapped_epochs(d: Path) -> None:
    (d / REPLICA / "leader-epoch-checkpoint").write_text("0\n2\n1 500\n0 0\n")


EXPECTED: Final[dict[Break, tuple[str, ...]]] = {
    flip_in_records: ("segments live-0@2 00000000000000000000.log crc_errors=1",),
    flip_in_records_of_the_last_batch: ("segments live-0@2 00000000000000000963.log crc_errors=1",),
    flip_in_records_of_the_last_batch_after_a_crash: (
        "replicas live-0@2 high_watermark 977 above 976",
        "replicas live-0@2 log ends at 976, readable to 977",
        "replicas live-0@2 recovery_point_offset 977 above 976",
        "segments live-0@2 00000000000000000963.log crc_errors=1",
    ),
    other_epoch: (
        "divergences live-0@2 first_differing_offset=3",
        "divergences live-0@2 first_differing_undiverged_offset=3",
        "epoch_spans live-0@2 epoch 7 not in the checkpoint",
        "segments live-0@2 00000000000000000000.log epoch_order_errors=1",
    ),
    other_base_offset: (
        "divergences live-0@2 first_differing_offset=3",
        "divergences live-0@2 first_differing_undiverged_offset=3",
        "segments live-0@2 00000000000000000000.log offset_gaps=1",
        "segments live-0@2 00000000000000000000.log offset_order_errors=1",
    ),
    cut_active: (
        "index_files live-0@2 00000000000000000963.timeindex pointer_errors=1",
        "index_files live-0@2 00000000000000000977.snapshot misplaced=1",
        "index_files live-0@2 00000000000000000977.snapshot wrong_entries=1",
        "partitions live-0 high watermark in [977, 976]",
        "replicas live-0@2 high_watermark 977 above 976",
        "replicas live-0@2 recovery_point_offset 977 above 976",
        "segments live-0@2 00000000000000000963.log length_errors=1",
        "segments live-0@2 00000000000000000963.log torn_tail=1",
    ),
    cut_active_after_a_crash: (
        "index_files live-0@2 00000000000000000977.snapshot misplaced=1",
        "index_files live-0@2 00000000000000000977.snapshot wrong_entries=1",
        "replicas live-0@2 high_watermark 977 above 976",
        "replicas live-0@2 recovery_point_offset 977 above 976",
        "segments live-0@2 00000000000000000963.log length_errors=1",
        "segments live-0@2 00000000000000000963.log torn_tail=1",
    ),
    cut_sealed: (
        "divergences live-0@2 first_differing_offset=643",
        "divergences live-0@2 first_differing_undiverged_offset=643",
        "index_files live-0@2 00000000000000000323.timeindex pointer_errors=1",
        "index_files live-0@2 00000000000000000644.snapshot wrong_entries=1",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000323.log length_errors=1",
        "segments live-0@2 00000000000000000323.log torn_tail=1",
    ),
    remove_middle_segment: (
        "divergences live-0@2 first_differing_offset=323",
        "divergences live-0@2 first_differing_undiverged_offset=323",
        "index_files live-0@2 00000000000000000644.snapshot wrong_entries=1",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000644.log offset_gaps=1",
    ),
    swap_segments: (
        "index_files live-0@2 00000000000000000323.index pointer_errors=59",
        "index_files live-0@2 00000000000000000323.timeindex pointer_errors=60",
        "index_files live-0@2 00000000000000000644.index pointer_errors=60",
        "index_files live-0@2 00000000000000000644.snapshot wrong_entries=1",
        "index_files live-0@2 00000000000000000644.timeindex pointer_errors=61",
        "index_files live-0@2 00000000000000000963.snapshot wrong_entries=1",
        "producers live-0@2 producer 8 duplicate_batches=313",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000323.log offset_gaps=1",
        "segments live-0@2 00000000000000000644.log offset_order_errors=1",
        "segments live-0@2 00000000000000000963.log offset_gaps=1",
    ),
    zero_page: (
        "divergences live-0@2 first_differing_offset=41",
        "divergences live-0@2 first_differing_undiverged_offset=41",
        "index_files live-0@2 00000000000000000000.index pointer_errors=4",
        "index_files live-0@2 00000000000000000000.timeindex pointer_errors=4",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000000.log crc_errors=1",
        "segments live-0@2 00000000000000000000.log length_errors=1",
    ),
    text_log: (
        "index_files live-0@2 00000000000000000963.timeindex pointer_errors=3",
        "index_files live-0@2 00000000000000000977.snapshot misplaced=1",
        "index_files live-0@2 00000000000000000977.snapshot wrong_entries=1",
        "partitions live-0 high watermark in [977, 963]",
        "replicas live-0@2 high_watermark 977 above 963",
        "replicas live-0@2 recovery_point_offset 977 above 963",
        "segments live-0@2 00000000000000000963.log length_errors=1",
        "segments live-0@2 00000000000000000963.log torn_tail=1",
    ),
    text_sealed: (
        "divergences live-0@2 first_differing_offset=323",
        "divergences live-0@2 first_differing_undiverged_offset=323",
        "index_files live-0@2 00000000000000000323.index form_errors=59",
        "index_files live-0@2 00000000000000000323.index pointer_errors=59",
        "index_files live-0@2 00000000000000000323.timeindex pointer_errors=60",
        "index_files live-0@2 00000000000000000644.snapshot wrong_entries=1",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000323.log length_errors=1",
        "segments live-0@2 00000000000000000323.log torn_tail=1",
    ),
    empty_log: (
        "index_files live-0@2 00000000000000000963.timeindex pointer_errors=3",
        "index_files live-0@2 00000000000000000977.snapshot misplaced=1",
        "index_files live-0@2 00000000000000000977.snapshot wrong_entries=1",
        "partitions live-0 high watermark in [977, 963]",
        "replicas live-0@2 high_watermark 977 above 963",
        "replicas live-0@2 recovery_point_offset 977 above 963",
    ),
    no_epoch_checkpoint: (
        "checkpoint_files broker-2/live-0/leader-epoch-checkpoint unreadable",
        "replicas live-0@2 epoch_checkpoint_missing=1",
    ),
    garbage_epoch_checkpoint: (
        "checkpoint_files broker-2/live-0/leader-epoch-checkpoint unreadable",
        "epoch_spans live-0@2 epoch 0 not in the checkpoint",
    ),
    raised_high_watermark: ("replicas live-0@2 high_watermark 99999 above 977",),
    bad_index_offset: ("index_files live-0@2 00000000000000000000.index pointer_errors=1",),
    bad_index_position: ("index_files live-0@2 00000000000000000000.index pointer_errors=1",),
    odd_index: ("index_files live-0@2 00000000000000000000.index form_errors=1",),
    bad_time_index: ("index_files live-0@2 00000000000000000000.timeindex pointer_errors=1",),
    short_time_index: ("index_files live-0@2 00000000000000000000.timeindex pointer_errors=1",),
    txnindex_drop: ("index_files livetx-0@2 00000000000000000000.txnindex missing_entries=1",),
    txnindex_add: ("index_files livetx-0@2 00000000000000000000.txnindex extra_entries=1",),
    txnindex_lso: ("index_files livetx-0@2 00000000000000000000.txnindex last_stable_offset_errors=1",),
    txnindex_removed: ("index_files livetx-0@2 00000000000000000000.txnindex missing_entries=12",),
    snapshot_crc: (
        "index_files live-0@2 00000000000000000644.snapshot extra_entries=1",
        "index_files live-0@2 00000000000000000644.snapshot form_errors=1",
        "index_files live-0@2 00000000000000000644.snapshot missing_entries=1",
    ),
    snapshot_sequence: ("index_files live-0@2 00000000000000000644.snapshot wrong_entries=1",),
    snapshot_dropped: ("index_files live-0@2 00000000000000000644.snapshot missing_entries=1",),
    topic_id: ("replicas live-0@2 topic_id",),
    other_bytes: (
        "divergences live-0@2 first_differing_offset=5",
        "divergences live-0@2 first_differing_undiverged_offset=5",
        "divergences live-0@2 identity_violation_offset=5",
    ),
    duplicated: (
        "divergences live-0@2 divergence_offset=977",
        "divergences live-0@2 records_at_stake=1",
        "producers live-0@2 producer 8 duplicate_batches=1",
    ),
    dropped_batch: (
        "divergences live-0@2 first_differing_offset=5",
        "divergences live-0@2 first_differing_undiverged_offset=5",
        "index_files live-0@2 00000000000000000000.index pointer_errors=52",
        "producers live-0@2 producer 8 lost_gaps=1",
        "segments live-0@2 00000000000000000000.log offset_gaps=1",
    ),
    no_checkpoints: (
        "checkpoint_files broker-2/cleaner-offset-checkpoint unreadable",
        "checkpoint_files broker-2/log-start-offset-checkpoint unreadable",
        "checkpoint_files broker-2/recovery-point-offset-checkpoint unreadable",
        "checkpoint_files broker-2/replication-offset-checkpoint unreadable",
    ),
    garbage_checkpoint: ("checkpoint_files broker-2/replication-offset-checkpoint unreadable",),
    swapped_epochs: ("replicas live-0@2 epoch_checkpoint_disorder=1",),
}
"""What each break makes wrong, to the last column; all else must stay as it was."""


def copied(golden: Golden, directory: Path) -> Path:
    return copy_of(golden("healthy"), directory / "copy", *PARTITIONS)


@pytest.fixture
def copy(golden: Golden, tmp_path: Path) -> Path:
    return copied(golden, tmp_path)


@pytest.fixture(scope="module")
def sound(golden: Golden, tmp_path_factory: pytest.TempPathFactory) -> Derived:
    return derived_once(copied(golden, tmp_path_factory.mktemp("sound")))


def test_the_copy_is_sound_but_for_the_partitions_that_it_leaves_out(sound: Derived) -> None:
    assert all(line.startswith("partitions ") and " without [" in line for line in wrong(sound))


@pytest.mark.parametrize(("break_it", "expected"), EXPECTED.items(), ids=[b.__name__ for b in EXPECTED])
def test_one_break_and_what_it_makes_wrong(
    break_it: Break, expected: tuple[str, ...], copy: Path, sound: Derived
) -> None:
    break_it(copy)
    facts = derived(copy)
    assert wrong(facts) - wrong(sound) == set(expected)
    assert wrong(sound) <= wrong(facts)
    assert facts.unread() == sound.unread()
    if break_it not in (no_checkpoints, garbage_checkpoint):  # these are of the whole log dir
        assert rows_elsewhere(facts) == rows_elsewhere(sound)


def rows_elsewhere(facts: Derived) -> dict[str, list[Any]]:
    """Rows of every partition but the broken ones, without what the partitions of a broker share."""
    shared = {"snapshot_id", "broker_quiet", "snapshot_quiet", "broker_alive", "clean_shutdown", "just_loaded"}
    shared |= {"follower_clean_shutdown", "leader_clean_shutdown", "stale_tail"}
    return {
        relation: [
            {name: value for name, value in row.items() if name not in shared}
            for row in of_relation
            if (row.get("topic"), row.get("partition")) not in {("live", 0), ("livetx", 0), (None, None)}
        ]
        for relation, of_relation in facts.rows.items()
        if relation != "brokers"
    }


def test_a_torn_tail_after_a_crash_is_what_an_interrupted_write_leaves(copy: Path) -> None:
    cut_active_after_a_crash(copy)
    row = derived(copy).one("segments", path=f"{REPLICA}/{963:020d}.log")
    assert (row["is_active"], row["clean_shutdown"], row["cut_tail"], row["zero_tail"]) == (True, False, True, False)
    assert row["torn_tail_position"] == row["valid_bytes"] < row["size_bytes"]


def test_text_is_no_cut_tail(copy: Path) -> None:
    text_log(copy)
    row = derived(copy).one("segments", path=f"{REPLICA}/{963:020d}.log")
    assert (row["torn_tail"], row["valid_bytes"], row["batch_count"]) == (True, 0, 0)


def test_a_batch_with_a_bad_checksum_in_the_tail_is_told_apart(copy: Path) -> None:
    flip_in_records_of_the_last_batch(copy)
    assert derived(copy).one("segments", path=f"{REPLICA}/{963:020d}.log")["crc_errors_in_tail"] is True
    flip_in_records(copy)
    assert derived(copy).one("segments", path=f"{REPLICA}/{0:020d}.log")["crc_errors_in_tail"] is False


def test_damage_says_which_bytes_and_which_offsets(copy: Path) -> None:
    rows = batches(first(copy))
    flip_in_records(copy)
    (told,) = json.loads(derived(copy).one("segments", path=f"{REPLICA}/{0:020d}.log")["damages"])
    assert (told["kind"], told["position"], told["end_position"]) == ("crc", *place(rows[3]))
    assert (told["start_offset"], told["end_offset"]) == (int(rows[3]["base_offset"]), int(rows[3]["last_offset"]) + 1)


def test_a_lost_sequence_says_where(copy: Path) -> None:
    row = batches(first(copy))[5]
    dropped_batch(copy)
    facts = derived(copy)
    gap = facts.one("sequence_gaps", topic="live", partition=0, broker_id=2)
    missing = int(row["last_offset"]) - int(row["base_offset"]) + 1
    assert (gap["cause"], gap["offset"], gap["previous_offset"]) == (
        "lost",
        int(row["last_offset"]) + 1,
        int(row["base_offset"]) - 1,
    )
    assert gap["found_sequence"] - gap["expected_sequence"] == missing
    (producer,) = facts.all("producers", broker_id=2, topic="live", partition=0, lost_gaps=1)
    assert producer["missing_sequences"] == missing
    assert facts.one("segments", path=f"{REPLICA}/{0:020d}.log")["missing_offsets"] == missing


def test_a_batch_that_every_replica_dropped_is_seen_on_each(copy: Path) -> None:
    for broker in (1, 2, 3):
        path = segments(copy / f"broker-{broker}/live-0")[0]
        start, end = place(batches(path)[5])
        edit(path, lambda b, s=start, e=end: b[:s] + b[e:])  # type: ignore[misc]
    facts = derived(copy)
    assert {r["broker_id"] for r in facts.all("producers", lost_gaps=1)} == {1, 2, 3}
    assert not [r for r in facts.rows["divergences"] if r["first_differing_offset"] is not None]


def test_a_batch_rewritten_in_its_own_epoch_breaks_identity_and_quotes_both(copy: Path) -> None:
    row = batches(first(copy))[5]
    other_bytes(copy)
    (parted,) = [r for r in derived(copy).rows["divergences"] if r["first_differing_offset"] is not None]
    offset = int(row["base_offset"])
    assert parted["identity_violation_offset"] == parted["first_differing_committed_offset"] == offset
    (quoted,) = json.loads(parted["differing_batches"])
    assert quoted["offset"] == offset
    assert {quoted["leader_batch"]["crc"], quoted["follower_batch"]["crc"]} > {f"{int(row['crc']):08x}"}
    assert quoted["leader_batch"]["leader_epoch"] == quoted["follower_batch"]["leader_epoch"]
    assert parted["divergence_offset"] == parted["follower_log_end_offset"], "Kafka would not truncate anything"


def test_a_removed_head_only_moves_the_log_start(copy: Path, sound: Derived) -> None:
    remove_first_segment(copy)
    facts = derived(copy)
    assert wrong(facts) == wrong(sound)
    assert facts.one("replicas", broker_id=2, topic="live", partition=0)["log_start_offset"] == 323


def test_a_commit_is_not_ahead_of_a_high_watermark_that_is_known(copy: Path) -> None:
    segments(copy / "broker-2/txn-0")[-1].write_text("hello\n")
    facts = derived(copy)
    assert facts.one("partitions", topic="txn", partition=0)["high_watermark_upper"] == 0
    for row in facts.all("committed_offsets", topic="txn", partition=0):
        assert row["committed_offset"] <= row["high_watermark_upper"] == 242


def test_a_whole_broker_is_missing(copy: Path, sound: Derived) -> None:
    shutil.rmtree(copy / "broker-3")
    facts = derived(copy)
    added = wrong(facts) - wrong(sound)
    assert added
    assert all(line.startswith("partitions ") and "without [3]" in line for line in added)
    assert facts.one("brokers", broker_id=3)["captured"] is False
    assert facts.unread()["broker-3"] == "registered with the controller, and not in the snapshot"
    rows = facts.rows["divergences"]
    assert rows
    assert all(3 not in (r["leader_id"], r["follower_id"]) for r in rows)


def test_without_the_metadata_log_the_logs_still_speak(copy: Path, sound: Derived) -> None:
    for broker in (1, 2, 3):
        shutil.rmtree(copy / f"broker-{broker}/__cluster_metadata-0")
    facts = derived(copy)
    assert wrong(facts) == set()
    assert facts.rows.get("partitions", []) == []
    assert {r["metadata_known"] for r in facts.rows["replicas"]} == {False}
    assert {r["metadata_topic_id"] for r in facts.rows["replicas"]} == {None}
    references = facts.all("replicas", is_reference=True)
    assert len(references) == len({(r["topic"], r["partition"]) for r in facts.rows["replicas"]})
    assert len(facts.rows["divergences"]) == len(sound.rows["divergences"]) - 2  # the metadata log's own
    other_bytes(copy)
    flip_in_records(copy)
    found = wrong(derived(copy))
    assert "segments live-0@2 00000000000000000000.log crc_errors=1" in found
    assert [line for line in found if line.startswith("divergences ") and line.endswith("identity_violation_offset=5")]


def test_a_replicas_directory_is_missing(copy: Path, sound: Derived) -> None:
    shutil.rmtree(copy / REPLICA)
    facts = derived(copy)
    assert wrong(facts) - wrong(sound) == {"partitions live-0 without [2]"}
    assert wrong(sound) <= wrong(facts)
    told = {p: r for p, r in facts.unread().items() if p not in sound.unread()}
    assert told == {REPLICA: "assigned to this broker by the metadata log, and not in its log directories"}


def test_a_link_is_named_and_not_followed(copy: Path, sound: Derived) -> None:
    first(copy).unlink()
    (copy / REPLICA / f"{0:020d}.log").symlink_to("/nowhere")
    facts = derived(copy)
    assert wrong(facts) == wrong(sound)
    told = {p: r for p, r in facts.unread().items() if p not in sound.unread()}
    assert told == {f"{REPLICA}/{0:020d}.log": "a link; not followed"}


@pytest.mark.parametrize(
    "name",
    [
        f"{REPLICA}/{0:020d}.log",
        f"{REPLICA}/{0:020d}.index",
        f"{REPLICA}/{323:020d}.snapshot",
        f"{REPLICA}/leader-epoch-checkpoint",
        f"{REPLICA}/partition.metadata",
        "broker-2/replication-offset-checkpoint",
        "broker-2/meta.properties",
    ],
)
def test_what_cannot_be_read_is_named_and_the_rest_is_read(
    name: str, copy: Path, sound: Derived, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = io.open

    def failing(file: Any, *args: Any, **more: Any) -> Any:
        if str(file).endswith(name):
            raise OSError(5, "Input/output error", str(file))
        return opened(file, *args, **more)

    monkeypatch.setattr(io, "open", failing)
    monkeypatch.setattr(builtins, "open", failing)
    facts = derived(copy)
    elsewhere = [line for line in wrong(facts) - wrong(sound) if "live-0@2" not in line and "broker-2" not in line]
    assert elsewhere == []
    told = {p: r for p, r in facts.unread().items() if p not in sound.unread()}
    assert list(told) == [name]
    assert "Input/output error" in told[name]
