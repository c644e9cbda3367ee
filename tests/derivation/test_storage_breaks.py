"""One thing broken in how logs are kept: what an audit calls the root, and that it says nothing else."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.derivation.damage import copy_of, edit, segments, with_holes
from tests.derivation.judging import Judge, roots
from tests.derivation.pipeline import derived
from tests.derivation.rejoined import set_high_watermark, truncate
from tests.derivation.storage_breaks import (
    BROKERS,
    checkpointed,
    merged,
    of_remote_segment,
    only_what_is_there,
    remote_records,
    rewritten,
    set_in_record,
    shutdown_epoch,
    two_log_dirs,
    without_batch,
)
from tests.sampling import one_in
from tidegauge.kafka_log.coordinator_records import RemoteLogRecord
from tidegauge.kafka_log.records import RecordBatch
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import Consistency

QUIET = ("__cluster_metadata-0", "live-0", "compacted-0", "compact-txn-0")
TIERED = (
    "__cluster_metadata-0",
    "__remote_log_metadata-0",
    "__remote_log_metadata-1",
    "__remote_log_metadata-2",
    "tier-0",
)
STORE = "remote-storage/kafka-tiered-storage"
LIVE, COMPACTED = "broker-2/live-0", "broker-1/compacted-0"
Break = Callable[[Path], None]


def first(d: Path, replica: str = LIVE) -> Path:
    return segments(d / replica)[0]


# ------------------------------------------------------------------------------------------------- a stopped cluster


def records_with_other_offsets(d: Path) -> None:
    set_in_record(first(d), 3, 2, 2)


def records_with_other_timestamps(d: Path) -> None:
    set_in_record(first(d), 3, 1, 2)


def a_swap_that_never_ended(d: Path) -> None:
    shutil.copy(first(d), first(d).with_suffix(".log.swap"))


def an_index_without_a_log(d: Path) -> None:
    shutil.copy(first(d).with_suffix(".index"), d / LIVE / f"{100:020d}.index")


def a_partition_in_two_log_dirs(d: Path) -> None:
    two_log_dirs(d / "broker-2", "live-0")


def a_segment_that_is_too_large(d: Path) -> None:
    merged(d / LIVE, 0, 323)


def an_index_that_was_emptied(d: Path) -> None:
    first(d).with_suffix(".index").write_bytes(b"")


def a_cleaner_in_the_active_segment(d: Path) -> None:
    checkpointed(d / "broker-1", "cleaner-offset-checkpoint", "compacted", 0, 1900)


def a_checkpoint_of_nothing(d: Path) -> None:
    checkpointed(d / "broker-1", "recovery-point-offset-checkpoint", "ghost", 7, 12)


def an_older_image_of_a_disk(d: Path) -> None:
    shutdown_epoch(d / "broker-3", 1)


def a_producers_last_batch_is_gone(d: Path) -> None:
    without_batch(segments(d / COMPACTED)[0], 0)


def a_key_that_one_replica_has_alone(d: Path) -> None:
    def renamed(batch: RecordBatch) -> RecordBatch:
        return replace(batch, records=(replace(batch.records[0], key=b"x10"), *batch.records[1:]))

    rewritten(segments(d / COMPACTED)[1], -1, renamed)


def a_record_without_a_key(d: Path) -> None:
    def unkeyed(batch: RecordBatch) -> RecordBatch:
        return replace(batch, records=(replace(batch.records[0], key=None), *batch.records[1:]))

    for broker in BROKERS:
        rewritten(segments(d / broker / "compact-txn-0")[0], 0, unkeyed)
        for index in (d / broker / "compact-txn-0").glob("*.*index"):
            if index.suffix != ".txnindex":
                index.write_bytes(b"")


def an_aborted_transaction_is_not_indexed(d: Path) -> None:
    for broker in BROKERS:
        edit(segments(d / broker / "compact-txn-0")[0].with_suffix(".txnindex"), lambda data: data[34:])


STOPPED: dict[Break, str] = {
    records_with_other_offsets: "A06",
    records_with_other_timestamps: "A10",
    a_swap_that_never_ended: "A14",
    an_index_without_a_log: "A15",
    a_partition_in_two_log_dirs: "A17",
    a_segment_that_is_too_large: "A19",
    an_index_that_was_emptied: "B03",
    a_cleaner_in_the_active_segment: "B19",
    a_checkpoint_of_nothing: "B20",
    an_older_image_of_a_disk: "B21",
    a_record_without_a_key: "G04",
    a_producers_last_batch_is_gone: "G06",
    a_key_that_one_replica_has_alone: "G07",
    an_aborted_transaction_is_not_indexed: "G08",
}


@pytest.mark.parametrize(("break_it", "code"), one_in(4, STOPPED.items(), [b.__name__ for b in STOPPED]))
def test_one_break_in_a_stopped_cluster_is_one_root(
    break_it: Break, code: str, golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "copy", *QUIET)
    only_what_is_there(copy)
    break_it(copy)
    assert {b.code for b in roots(judge, copy, a_part=True)} == {code}


# --------------------------------------------------------------------------------------------------- the remote tier


def tiered(golden: Golden, directory: Path, *more: str) -> Path:
    copy = copy_of(golden("tiered"), directory, *TIERED, *more)
    only_what_is_there(copy)
    shutil.copytree(golden("tiered") / STORE, copy / STORE, copy_function=with_holes)
    return copy


def object_file(d: Path, kind: str, base: int = 187) -> Path:
    return next((d / STORE).glob(f"tier-0-*/{base:020d}-*.{kind}"))


def a_remote_segment_without_epochs(d: Path) -> None:
    remote_records(d, of_remote_segment("tier", 763, segment_leader_epochs=[]))


def a_remote_segment_copied_before_it_was_begun(d: Path) -> None:
    remote_records(d, of_remote_segment("tier", 187, remote_log_segment_state=2))


def a_remote_segment_of_another_history(d: Path) -> None:
    remote_records(d, of_remote_segment("tier", 763, segment_leader_epochs=[{"leader_epoch": 7, "offset": 763}]))


def other_end(d: Path, state: int, *, at: int, before: int) -> None:
    """The copies of tier-0's segments that begin in [at, before) did not finish, but ended in another state."""
    ids = {p.stem[21:] for p in (d / STORE).glob("tier-0-*/*.log") if at <= int(p.name[:20]) < before}

    def change(record: RemoteLogRecord) -> dict[str, int] | None:
        said: Mapping[str, Any] = record.fields
        finished = said["remote_log_segment_state"] == 1
        return {"remote_log_segment_state": state} if finished and said["remote_log_segment_id"]["id"] in ids else None

    remote_records(d, change)


def a_hole_in_the_tier(d: Path) -> None:
    other_end(d, 2, at=187, before=379)


def local_segments_that_went_too_early(d: Path) -> None:
    other_end(d, 0, at=379, before=1000)


def an_index_is_missing_in_the_store(d: Path) -> None:
    object_file(d, "index").unlink()


def an_index_is_wrong_in_the_store(d: Path) -> None:
    edit(object_file(d, "timeindex"), lambda data: data.__setitem__(7, data[7] ^ 1))


def a_log_is_missing_in_the_store(d: Path) -> None:
    (log,) = (d / STORE).rglob(f"{187:020d}-*.log")
    log.unlink()


def a_log_is_missing_that_a_broker_still_has(d: Path) -> None:
    max((d / STORE).rglob("*.log"), key=lambda path: path.name).unlink()


def epochs_are_garbage_in_the_store(d: Path) -> None:
    object_file(d, "leader_epoch_checkpoint").write_bytes(b"garbage")


TIER: dict[Break, str] = {
    a_remote_segment_without_epochs: "H01",
    a_remote_segment_copied_before_it_was_begun: "H02",
    a_hole_in_the_tier: "H03",
    local_segments_that_went_too_early: "H06",
    a_remote_segment_of_another_history: "H04",
    an_index_is_missing_in_the_store: "H07",
    an_index_is_wrong_in_the_store: "H07",
    epochs_are_garbage_in_the_store: "H07",
}


@pytest.mark.parametrize(("break_it", "code"), one_in(4, TIER.items(), [b.__name__ for b in TIER]))
def test_one_break_in_the_remote_tier_is_one_root(
    break_it: Break, code: str, golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    copy = tiered(golden, tmp_path / "copy")
    break_it(copy)
    adopt(copy, cluster="tiered", consistency=Consistency.QUIESCED)
    assert {b.code for b in roots(judge, copy, a_part=True)} == {code}


@pytest.mark.parametrize(
    ("break_it", "start", "end", "word"),
    [
        (a_hole_in_the_tier, 187, 379, ""),
        (local_segments_that_went_too_early, 379, 571, ""),
        (a_log_is_missing_in_the_store, 187, 379, "its log file is not in the remote store"),
    ],
)
def test_what_neither_the_tier_nor_a_disk_holds_is_a_loss(
    break_it: Break, start: int, end: int, word: str, golden: Golden, tmp_path: Path
) -> None:
    """Group g-tier has committed 800."""
    copy = tiered(golden, tmp_path / "copy", *(f"__consumer_offsets-{n}" for n in range(3)))
    break_it(copy)
    adopt(copy, cluster="tiered", consistency=Consistency.QUIESCED)
    (loss,) = derived(copy).rows["losses"]
    assert (loss["topic"], loss["start_offset"], loss["end_offset"], loss["records"]) == (
        "tier",
        start,
        end,
        end - start,
    )
    assert (loss["state"], loss["held_by"], loss["groups_affected"]) == ("lost", [], ["g-tier"])
    assert "neither the remote tier nor the local log of any replica has these offsets" in loss["cause"]
    assert word in loss["cause"]


def test_what_a_disk_still_holds_is_no_loss_though_the_tier_lost_it(golden: Golden, tmp_path: Path) -> None:
    copy = tiered(golden, tmp_path / "copy", *(f"__consumer_offsets-{n}" for n in range(3)))
    a_log_is_missing_that_a_broker_still_has(copy)
    adopt(copy, cluster="tiered", consistency=Consistency.QUIESCED)
    assert derived(copy).rows["losses"] == []


def test_without_the_store_nothing_is_said_of_it(golden: Golden, tmp_path: Path, judge: Judge) -> None:
    copy = copy_of(golden("tiered"), tmp_path / "copy", *TIERED)
    results, breaches = judge.verdicts(derived(copy), "H")
    assert breaches == []
    assert (results["H07"].checked, set(results["H07"].reasons)) == (0, {"remote store not captured"})


@pytest.mark.slow
def test_what_was_copied_to_the_tier_before_it_was_committed_is_told(
    golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    copy = tiered(golden, tmp_path / "copy")
    shutil.rmtree(copy / "remote-storage")
    leader = derived(copy).one("partitions", topic="tier", partition=0)["leader_id"]
    for broker in BROKERS:
        if broker != f"broker-{leader}":
            truncate(copy / broker / "tier-0", 1000)
        set_high_watermark(copy / broker / "tier-0", 1000)
    remote_records(copy, of_remote_segment("tier", 763, end_offset=1004))
    adopt(copy, cluster="tiered", consistency=Consistency.QUIESCED)
    assert {b.code for b in roots(judge, copy, a_part=True) if b.severity != "info"} == {"H05"}
