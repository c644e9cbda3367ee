"""Two replicas compared: where they part, what differs, what is at stake, and whether that is a loss."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.facts.logs import Disks, batch, change, checkpoint, context, headers, marker, replica
from tidegauge.facts.context import OwnView, PartitionContext
from tidegauge.facts.metadata.partition_change import PartitionChange
from tidegauge.facts.replicas.commitment import Commitment, commitment
from tidegauge.facts.replicas.comparison import markers_between, records_between
from tidegauge.facts.replicas.divergence import Divergence, diverge
from tidegauge.facts.risk.losses import losses_of
from tidegauge.facts.segments.summary import BUCKET_OFFSETS

Rows = list[NDArray[Any]]


def compared(
    leader: Rows,
    follower: Rows,
    *,
    follower_more: dict[str, Any] | None = None,
    elected_epoch: int | None = None,
    **more: Any,
) -> Divergence:
    disks = Disks(broker_1=headers(*leader), broker_2=headers(*follower))
    return diverge(
        replica(*leader, broker_id=1, **more),
        replica(*follower, broker_id=2, **{**more, **(follower_more or {})}),
        elected_epoch=elected_epoch,
        read=disks,
    )


def run(start: int, end: int, *, epoch: int = 0, records: int = 10, **more: Any) -> Rows:
    return [batch(at, records, epoch=epoch, **more) for at in range(start, end, records)]


def test_replicas_that_agree_are_not_read_again() -> None:
    rows = run(0, 100)
    disks = Disks(broker_1=headers(*rows), broker_2=headers(*rows))
    found = diverge(replica(*rows, broker_id=1), replica(*rows, broker_id=2), elected_epoch=0, read=disks)
    assert disks.reads == 0
    assert (found.divergence_offset, found.difference.offset, found.records_at_stake) == (100, None, 0)
    assert (found.compared_from_offset, found.compared_to_end_offset) == (0, 100)


def test_a_follower_that_is_behind_or_began_later_does_not_differ() -> None:
    assert compared(run(0, 100), run(0, 60)).difference.offset is None
    assert compared(run(0, 100), run(30, 100)).difference.offset is None
    over = run(0, BUCKET_OFFSETS + 200)
    assert compared(over, over[1:-3]).difference.offset is None


def test_an_old_leaders_tail_differs_in_another_epoch() -> None:
    found = compared([*run(0, 50), *run(50, 80, epoch=1, crc=7)], run(0, 100), follower_more={"high_watermark": 70})
    assert found.divergence_offset == found.difference.offset == 50
    assert found.difference.same_epoch_offset is None
    assert (found.records_at_stake, committed(context(snapshot_quiet=True), found).records) == (50, 20)
    assert (found.truncated_leader_epoch, found.newer_epoch, found.newer_epoch_start_offset) == (0, 1, 50)
    assert [q.offset for q in found.difference.quoted] == [50, 60, 70]


@pytest.mark.parametrize(("high_watermark", "lost"), [(10, None), (15, (10, 20, 5)), (20, (10, 20, 10))])
def test_what_a_follower_cuts_off_and_gets_back_as_it_was_is_no_loss(
    high_watermark: int, lost: tuple[int, int, int] | None
) -> None:
    """Its epochs went back, so it knows of the first alone, in which the leader has nothing, and begins anew."""
    leader, behind = run(0, 10, epoch=2, records=5), run(10, 20, epoch=1, records=5)
    more = {"high_watermark": high_watermark, "epoch_checkpoint": checkpoint((1, 10))}
    found = compared(leader, [*leader, *behind], follower_more=more)
    assert (found.divergence_offset, found.stake_offset, found.records_at_stake) == (0, 10, 10)
    told = context(snapshot_quiet=True, changes=CLEANLY)
    rows = losses_of(told, [found], {2: committed(told, found)})
    ranges = [(r["start_offset"], r["end_offset"], r["declared_committed"]) for r in rows]
    assert ranges == ([lost] if lost is not None else [])


def test_other_bytes_under_equal_epochs_are_kept_unless_the_leader_has_deleted_them() -> None:
    # The old leader's batch, sent once more to the next one, is the same but for its epoch. The next one deleted it.
    leader, follower = [*run(0, 40), *run(40, 100, epoch=1)], run(0, 60)
    deleted = {"log_start_offset": 70, "epoch_checkpoint": checkpoint((1, 70))}

    def found(rows: Rows, **leads: Any) -> Divergence:
        disks = Disks(broker_1=headers(*leader), broker_2=headers(*rows))
        leading = replica(*leader, broker_id=1, **leads)
        return diverge(leading, replica(*rows, broker_id=2), elected_epoch=1, read=disks)

    assert (found(follower).divergence_offset, found(follower).undiverged_offset) == (40, None)
    assert found(follower, epoch_checkpoint=checkpoint((0, 0), (1, 60))).undiverged_offset == 40
    apart = found(follower, **deleted)
    assert (apart.divergence_offset, apart.difference.offset, apart.undiverged_offset) == (60, 40, None)
    beyond = [*follower[:4], *run(40, 80, epoch=1, crc=7)]
    assert found(beyond, **deleted).undiverged_offset == 70


def test_an_elected_leader_that_has_not_begun_its_epoch_will_know_of_the_one_before() -> None:
    """Broker 1 led epoch 0 and lost it to broker 2, and is elected for 2: it begins that at 20, before any fetch."""
    leader, follower = run(0, 20), [*run(0, 10), *run(10, 20, epoch=1)]
    unelected, elected = compared(leader, follower), compared(leader, follower, elected_epoch=2)
    assert (unelected.divergence_offset, unelected.undiverged_offset) == (20, 10)
    assert (elected.divergence_offset, elected.undiverged_offset, elected.records_at_stake) == (10, None, 10)
    own = {"epoch_checkpoint": checkpoint((0, 0), (1, 10))}
    begun = compared(leader, follower, follower_more=own, elected_epoch=2, epoch_checkpoint=checkpoint((0, 0), (2, 20)))
    assert (begun.divergence_offset, begun.undiverged_offset) == (10, None)


@pytest.mark.parametrize("field", ["crc", "size_bytes"])
def test_other_bytes_in_the_same_epoch_break_identity(field: str) -> None:
    other = run(0, 100)
    other[4][field] += 1
    found = compared(run(0, 100), other)
    assert (found.difference.offset, found.difference.same_epoch_offset) == (40, 40)
    assert found.divergence_offset == 100
    (quoted,) = found.difference.quoted
    assert quoted.one != quoted.other


def test_batches_cut_otherwise_in_one_epoch_break_identity_too() -> None:
    found = compared(run(0, 40), [*run(0, 20), *run(20, 40, records=5)])
    assert (found.difference.offset, found.difference.same_epoch_offset) == (20, 20)


def test_a_missing_batch_differs_unless_cleaning_may_have_taken_it() -> None:
    rows = run(0, 100)
    assert compared(rows, [*rows[:4], *rows[5:]]).difference.offset == 40
    cleaned = compared(rows, [*rows[:4], *rows[5:]], compacted=True)
    assert (cleaned.difference.offset, cleaned.incomparable_reason) == (None, None)


def test_what_a_cleaner_has_been_through_is_not_compared() -> None:
    other = run(0, 100)
    other[1]["crc"] += 1
    dirty: dict[str, Any] = {"compacted": True, "cleaner_offset": 50}
    assert compared(run(0, 100), other, **dirty).difference.offset is None
    other[7]["crc"] += 1
    assert compared(run(0, 100), other, **dirty).difference.offset == 70
    assert compared(run(0, 100), other, compacted=True, cleaner_offset=100).incomparable_reason == "compacted"


def test_nothing_in_common_cannot_be_compared() -> None:
    assert compared(run(0, 50), run(50, 90)).incomparable_reason == "no common range"
    assert compared(run(0, 50), []).incomparable_reason == "no batches"


def test_records_are_data_unless_there_are_markers_alone_and_a_batch_over_an_edge_counts_in_part() -> None:
    rows = headers(batch(0, 10), marker(10, producer_id=1), batch(11, 9))
    assert (records_between(rows, 0), markers_between(rows, 0)) == (19, 1)
    assert (records_between(rows, 4), records_between(rows, 4, 13)) == (15, 8)
    assert (records_between(rows, 10, 11), markers_between(rows, 11)) == (1, 0)
    assert records_between(np.zeros(0, dtype=rows.dtype), 0) == 0


def test_a_marker_alone_that_would_be_cut_off_is_at_stake() -> None:
    before = run(0, 50, producer_id=7, transactional=True)
    longer = [*before, marker(50, producer_id=7)]
    found = compared([*before, batch(50, 1, epoch=1)], longer, follower_more={"high_watermark": 51})
    assert (found.divergence_offset, found.records_at_stake, found.markers_at_stake) == (50, 1, 1)
    known = context(changes=(change(metadata_offset=5, leader_id=1, leader_epoch=1, previous_leader_epoch=0),))
    _, (loss,) = at_risk(known, found)
    told = (loss["start_offset"], loss["end_offset"], loss["records"], loss["markers"], loss["declared_committed"])
    assert told == (50, 51, 1, 1, 1)


def committed(known: PartitionContext, divergence: Divergence) -> Commitment:
    return commitment(known, divergence, [divergence.leader, divergence.follower])


def at_risk(known: PartitionContext, divergence: Divergence) -> tuple[Commitment, list[dict[str, Any]]]:
    told = committed(known, divergence)
    return told, losses_of(known, [divergence], {divergence.follower.broker_id: told})


def parted(*, high_watermark: int | None) -> Divergence:
    """Broker 2 led epoch 0 up to 100; broker 1 leads epoch 2 from 50."""
    return compared(
        [*run(0, 50), *run(50, 80, epoch=2, crc=7)], run(0, 100), follower_more={"high_watermark": high_watermark}
    )


GONE = change(metadata_offset=70, leader_id=None, leader_epoch=1, previous_leader_epoch=0, previous_isr=(2,), isr=(2,))
UNCLEAN = change(
    metadata_offset=77,
    leader_id=1,
    leader_epoch=2,
    previous_leader_epoch=1,
    election="unclean",
    previous_isr=(2,),
    isr=(1,),
    at_ms=9_000,
)
ELECTED = (GONE, UNCLEAN)
LEFT = change(
    metadata_offset=70, leader_id=None, leader_epoch=1, previous_leader_epoch=0, previous_isr=(1, 2), isr=(1,)
)
CLEAN = change(
    metadata_offset=76,
    leader_id=1,
    leader_epoch=2,
    previous_leader_epoch=1,
    election="clean",
    previous_isr=(1,),
    isr=(1,),
)
CLEANLY = (LEFT, CLEAN)
ALONE = {2: OwnView(metadata_offset=60, leader_id=2, leader_epoch=0, isr=(2,))}
"""What broker 2 knew while it led epoch 0: that it was all of the ISR."""
NO_METADATA = {
    "known": False,
    "captured": False,
    "changes": (),
    "epoch_leaders": {},
    "own_views": {},
}
LEADERS = {0: 2, 2: 1}


def test_an_uncommitted_tail_that_a_clean_election_leaves_behind_is_no_loss() -> None:
    known = context(changes=CLEANLY, epoch_leaders=LEADERS)
    told, losses = at_risk(known, parted(high_watermark=50))
    assert (told.records, told.possible_records, told.by, losses) == (0, 0, None, [])


def test_a_high_watermark_above_the_divergence_proves_what_lies_below_it() -> None:
    known = context(changes=CLEANLY, epoch_leaders=LEADERS)
    told, (loss,) = at_risk(known, parted(high_watermark=70))
    assert (told.records, told.possible_records, told.by) == (20, 30, "checkpoint")
    assert (loss["start_offset"], loss["end_offset"], loss["records"], loss["held_by"]) == (50, 100, 50, [2])
    assert (loss["state"], loss["declared_committed"]) == ("at_risk", 20)
    assert "no unclean election is on record" in loss["cause"]


def test_what_groups_had_read_was_committed() -> None:
    known = context(changes=CLEANLY, epoch_leaders=LEADERS, reached={"readers": {0: 90, 2: 60}, "reset": {-1: 100}})
    told, (loss,) = at_risk(known, parted(high_watermark=70))
    assert (told.records, told.by) == (40, "read")
    assert (loss["state"], loss["declared_committed"], loss["groups_affected"]) == ("at_risk", 40, ["readers"])
    other = context(changes=CLEANLY, epoch_leaders=LEADERS, reached={"readers": {1: 90}})
    told, _ = at_risk(other, parted(high_watermark=70))
    assert (told.records, told.by) == (20, "checkpoint"), "what they had read was of another epoch"


def test_the_only_in_sync_replica_committed_all_it_took() -> None:
    known = context(changes=ELECTED, epoch_leaders=LEADERS, min_insync_replicas=1, own_views=ALONE)
    told, (loss,) = at_risk(known, parted(high_watermark=None))
    assert (told.records, told.by, told.unclean) == (50, "sole_isr", UNCLEAN)
    assert (loss["state"], loss["declared_committed"]) == ("at_risk", 50)
    assert "record 77 of the metadata log made broker 1 leader (epoch 2) while the ISR was [2]" in loss["cause"]


def test_what_a_leader_knew_of_itself_proves_its_commits_where_no_election_is_on_record() -> None:
    known = context(changes=(), epoch_leaders={0: 2}, min_insync_replicas=1, own_views=ALONE)
    told, (loss,) = at_risk(known, parted(high_watermark=None))
    assert (told.records, told.by, told.elections_on_record) == (50, "sole_isr", False)
    assert loss["state"] == "at_risk"
    assert "it may have been an unclean election, a log that lost its tail, or a disk" in loss["cause"]


@pytest.mark.parametrize(
    ("fields", "lacks"),
    [
        pytest.param({"min_insync_replicas": 2}, "ledger", id="min.insync.replicas forbade it"),
        pytest.param({"min_insync_replicas": None}, "settings", id="min.insync.replicas is not known"),
        pytest.param({"epoch_leaders": {0: 3, 2: 1}}, "broker", id="another led that epoch"),
        pytest.param({"epoch_leaders": {2: 1}}, "metadata_log_start", id="nobody knows who led it"),
        pytest.param({"changes": (), "own_views": {}}, "metadata_log_start", id="no election on record"),
        pytest.param({"changes": (UNCLEAN,), "own_views": {}}, "metadata_log_start", id="one election not on record"),
        pytest.param({"own_views": {}}, "metadata_log", id="what the leader knew is not at hand"),
        pytest.param({"own_views": {2: replace(ALONE[2], leader_epoch=2)}}, "ledger", id="it knew more by then"),
        pytest.param(NO_METADATA, "metadata_log", id="no metadata log"),
    ],
)
def test_what_does_not_prove_a_commit_leaves_it_open(fields: dict[str, Any], lacks: str) -> None:
    sole = {"changes": ELECTED, "epoch_leaders": LEADERS, "min_insync_replicas": 1, "own_views": ALONE}
    told, (loss,) = at_risk(context(**{**sole, **fields}), parted(high_watermark=50))
    assert (told.records, told.possible_records, told.lacks) == (0, 50, lacks)
    assert (loss["state"], loss["records"], loss["declared_committed"]) == ("possible", 50, 0)
    assert "Whether they were committed is not known" in loss["cause"]


def test_a_leader_that_did_not_hear_of_its_isr_waited_for_a_member_that_ends_before() -> None:
    """Leader 2 knew brokers 2 and 3 in sync, and broker 3 ends at 70; the controller had taken it out."""
    out = change(
        metadata_offset=65,
        leader_id=2,
        leader_epoch=0,
        previous_isr=(2, 3),
        isr=(2,),
        removed_by_controller=(3,),
    )
    leader, old = [*run(0, 50), *run(50, 80, epoch=2, crc=7)], run(0, 100)
    disks = Disks(broker_1=headers(*leader), broker_2=headers(*old), broker_3=headers(*old[:7]))
    first, second, third = (
        replica(*leader, broker_id=1),
        replica(*old, broker_id=2, high_watermark=40),
        replica(*old[:7], broker_id=3, high_watermark=60),
    )
    found = [diverge(first, other, elected_epoch=None, read=disks) for other in (second, third)]
    views = {2: OwnView(metadata_offset=60, leader_id=2, leader_epoch=0, isr=(2, 3))}

    def told(*changes: PartitionChange) -> list[tuple[Any, ...]]:
        known = context(
            changes=changes, epoch_leaders=LEADERS, min_insync_replicas=1, own_views=views, snapshot_quiet=True
        )
        each = {d.follower.broker_id: commitment(known, d, [first, second, third]) for d in found}
        fields = ("start_offset", "end_offset", "held_by", "state", "declared_committed")
        return [tuple(loss[name] for name in fields) for loss in losses_of(known, found, each)]

    assert told(out, *ELECTED) == [(50, 70, [2, 3], "at_risk", 10)]
    # Taken out at the leader's own request: it may have known before its copy of the metadata log did.
    asked = replace(out, removed_by_controller=())
    assert told(asked, *ELECTED) == [(50, 70, [2, 3], "at_risk", 10), (70, 100, [2], "possible", 0)]


def test_within_one_epoch_only_copies_of_one_moment_prove_a_loss() -> None:
    longer = compared(run(0, 50), run(0, 80), follower_more={"high_watermark": 70})
    assert longer.newer_epoch is None
    assert at_risk(context(snapshot_quiet=False), longer)[1] == []
    told, (loss,) = at_risk(context(snapshot_quiet=True), longer)
    assert (told.records, told.by) == (20, "checkpoint")
    assert "lost its tail" in loss["cause"]


def test_an_old_epoch_checkpoint_does_not_hide_where_logs_part() -> None:
    found = compared([*run(0, 50), *run(50, 80, epoch=1, crc=7)], run(0, 100), epoch_checkpoint=checkpoint((0, 0)))
    assert found.divergence_offset == 50
