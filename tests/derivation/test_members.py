"""Members of ISR and ELR on real clusters' disks: each must hold what any replica knows to be committed."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.damage import batches, copy_of, segments, with_holes
from tests.derivation.judging import Judge, roots
from tests.derivation.pipeline import derived
from tests.derivation.rejoined import set_high_watermark, truncate
from tests.derivation.storage_breaks import only_what_is_there
from tidegauge.expectations.verdicts import Breach
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import Consistency

METADATA = "__cluster_metadata-0"
LIVE_END = 977
"""Where live-0 of `healthy` ends on each of its brokers. All stopped cleanly; 1 led it last, the ELR is [1, 2]."""


def part_of(golden: Golden, name: str, directory: Path, *partitions: str) -> Path:
    """A copy of some partitions, whose checkpoints name no others."""
    copy = copy_of(golden(name), directory / name, METADATA, *partitions)
    only_what_is_there(copy)
    return copy


def cut(replica: Path, *, batches_less: int) -> int:
    """Cuts a log's last batches off, as a lost flush does; its high watermark's checkpoint is as it was."""
    rows = batches(segments(replica)[-1])
    end, before = int(rows["base_offset"][-batches_less]), int(rows["last_offset"][-1]) + 1
    truncate(replica, end)
    set_high_watermark(replica, before)
    return end


def of_topic(judge: Judge, directory: Path, topic: str) -> list[Breach]:
    return [b for b in roots(judge, directory, a_part=True) if b.subject.get("topic") == topic]


def breaches(judge: Judge, directory: Path, code: str) -> list[Breach]:
    return [b for b in judge.verdicts(derived(directory), code[0])[1] if b.code == code]


def test_who_led_last_and_lacks_what_others_know_to_be_committed_is_told(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    copy = part_of(golden, "healthy", tmp_path, "live-0")
    end = cut(copy / "broker-1/live-0", batches_less=3)
    (told,) = breaches(judge, copy, "D11")
    assert (told.subject["follower_id"], told.start_offset, told.end_offset) == (1, end, LIVE_END)
    assert (told.severity, told.evidence["known_high_watermark_broker"]) == ("critical", 3)
    assert f"its log ends at {end}: {LIVE_END - end} committed offsets are not there" in told.explanation


def test_what_is_known_to_be_committed_is_not_cut_at_the_end_of_who_led_last(golden: Golden, tmp_path: Path) -> None:
    copy = part_of(golden, "healthy", tmp_path, "live-0")
    cut(copy / "broker-1/live-0", batches_less=3)
    members = derived(copy).all("isr_members", topic="live", partition=0)
    assert {m["follower_id"]: m["known_high_watermark"] for m in members} == {1: LIVE_END, 2: LIVE_END}


@pytest.mark.parametrize("gone", [1, 2])
def test_an_eligible_leader_without_a_directory_holds_nothing(
    judge: Judge, golden: Golden, tmp_path: Path, gone: int
) -> None:
    copy = part_of(golden, "healthy", tmp_path, "live-0")
    shutil.rmtree(copy / f"broker-{gone}/live-0")
    (told,) = of_topic(judge, copy, "live")
    assert (told.code, told.severity, told.subject["follower_id"]) == ("D11", "critical", gone)
    assert (told.start_offset, told.end_offset) == (0, LIVE_END)
    assert f"has no log of it: {LIVE_END} committed offsets are not there" in told.explanation


def test_an_in_sync_replica_without_a_directory_holds_nothing(judge: Judge, golden: Golden, tmp_path: Path) -> None:
    """Broker 3 of `one-controller` stopped last, and is the whole ISR."""
    copy = copy_of(golden("one-controller"), tmp_path / "copy", METADATA, "orders-0")
    only_what_is_there(copy)
    shutil.rmtree(copy / "broker-3/orders-0")
    (told,) = of_topic(judge, copy, "orders")
    assert (told.code, told.severity, told.subject["follower_id"]) == ("D10", "critical", 3)
    assert (told.start_offset, told.end_offset) == (0, 120)


def test_a_replica_on_a_broker_that_is_not_assigned_is_no_copy_to_count_on(
    judge: Judge, golden: Golden, tmp_path: Path
) -> None:
    """safe-0 of `racks` is assigned to brokers 4, 5 and 1; what two of them lost, broker 2 has a stray copy of."""
    copy = copy_of(golden("racks"), tmp_path / "copy", METADATA, "safe-0")
    shutil.copytree(copy / "broker-5/safe-0", copy / "broker-2/safe-0", copy_function=with_holes)
    for broker in (5, 1):
        cut(copy / f"broker-{broker}/safe-0", batches_less=1)
    adopt(copy, cluster="racks", consistency=Consistency.QUIESCED)
    (told,) = breaches(judge, copy, "D20")
    assert told.subject["topic"] == "safe"
    assert (told.evidence["complete_replicas"], told.evidence["min_insync_replicas"]) == ([4], 2)
