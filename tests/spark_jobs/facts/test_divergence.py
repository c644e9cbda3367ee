"""Two replicas compared: where they part, what differs, what is at stake, and whether that is a loss."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spark_jobs.facts.comparison import data_records
from spark_jobs.facts.context import PartitionContext
from spark_jobs.facts.divergence import Divergence, diverge
from spark_jobs.facts.losses import Proof, committed_proof, losses_of
from spark_jobs.facts.segment_summary import BUCKET_OFFSETS
from tests.spark_jobs.facts.logs import Disks, batch, change, checkpoint, context, headers, marker, replica

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
    assert (found.records_at_stake, found.records_below_own_high_watermark) == (50, 20)
    assert (found.truncated_leader_epoch, found.newer_epoch, found.newer_epoch_start_offset) == (0, 1, 50)
    assert [q["offset"] for q in found.difference.quoted] == [50, 60, 70]


@pytest.mark.parametrize(("high_watermark", "lost"), [(10, None), (15, (10, 20, 5)), (20, (10, 20, 10))])
def test_what_a_follower_cuts_off_and_gets_back_as_it_was_is_no_loss(
    high_watermark: int, lost: tuple[int, int, int] | None
) -> None:
    """Its epochs went back, so it knows of the first alone, in which the leader has nothing, and begins anew."""
    leader, behind = run(0, 10, epoch=2, records=5), run(10, 20, epoch=1, records=5)
    more = {"high_watermark": high_watermark, "epoch_checkpoint": checkpoint((1, 10))}
    found = compared(leader, [*leader, *behind], follower_more=more)
    assert (found.divergence_offset, found.stake_offset, found.records_at_stake) == (0, 10, 10)
    told = context(snapshot_quiet=True)
    rows = losses_of(told, [found], {2: committed_proof(told, found)})
    ranges = [(r["start_offset"], r["end_offset"], r["declared_committed"]) for r in rows]
    assert ranges == ([lost] if lost is not None else [])


def test_other_bytes_under_equal_epochs_are_kept_unless_the_leader_has_deleted_them() -> None:
    # The old leader's batch, sent once more to the next one, is the same but for its epoch. The next one deleted it.
    leader, follower = [*run(0, 40), *run(40, 100, epoch=1)], run(0, 60)
    deleted = {"checkpoint_log_start_offset": 70, "epoch_checkpoint": checkpoint((1, 70))}

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
    assert quoted["leader_batch"] != quoted["follower_batch"]


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


def test_records_at_stake_are_data_and_a_batch_over_the_edge_counts_in_part() -> None:
    rows = headers(batch(0, 10), marker(10, producer_id=1), batch(11, 9))
    assert data_records(rows, 0) == 19
    assert data_records(rows, 4) == 15
    assert data_records(rows[1:2], 0) == 0
    assert data_records(np.zeros(0, dtype=rows.dtype), 0) == 0


def at_risk(known: PartitionContext, divergence: Divergence) -> tuple[Proof, list[dict[str, Any]]]:
    proof = committed_proof(known, divergence)
    return proof, losses_of(known, [divergence], {divergence.follower.broker_id: proof})


def parted(*, high_watermark: int | None) -> Divergence:
    """Broker 2 led epoch 0 up to 100; broker 1 leads epoch 2 from 50."""
    return compared(
        [*run(0, 50), *run(50, 80, epoch=2, crc=7)], run(0, 100), follower_more={"high_watermark": high_watermark}
    )


UNCLEAN = change(
    metadata_offset=77, leader_id=1, leader_epoch=2, election="unclean", previous_isr=(2,), isr=(1,), at_ms=9_000
)
CLEAN = change(metadata_offset=76, leader_id=1, leader_epoch=2, election="clean", previous_isr=(1, 2), isr=(1, 2))


def test_an_uncommitted_tail_that_a_clean_election_leaves_behind_is_no_loss() -> None:
    known = context(changes=(CLEAN,), epoch_leaders={0: 2, 2: 1})
    proof, losses = at_risk(known, parted(high_watermark=50))
    assert (proof.records, proof.by, losses) == (0, None, [])


def test_a_high_watermark_above_the_divergence_proves_what_lies_below_it() -> None:
    known = context(changes=(CLEAN,), epoch_leaders={0: 2, 2: 1})
    proof, (loss,) = at_risk(known, parted(high_watermark=70))
    assert (proof.records, proof.by) == (20, "checkpoint")
    assert (loss["start_offset"], loss["end_offset"], loss["records"], loss["held_by"]) == (50, 100, 50, [2])
    assert loss["declared_committed"] == 20
    assert "no unclean election is on record" in loss["cause"]


def test_the_only_in_sync_replica_committed_all_it_took() -> None:
    known = context(changes=(UNCLEAN,), epoch_leaders={0: 2, 2: 1}, min_insync_replicas=1)
    proof, (loss,) = at_risk(known, parted(high_watermark=None))
    assert (proof.records, proof.by, proof.unclean) == (50, "sole_isr", UNCLEAN)
    assert loss["declared_committed"] == 50
    assert "record 77 of the metadata log made broker 1 leader (epoch 2) while the ISR was [2]" in loss["cause"]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"min_insync_replicas": 2}, id="min.insync.replicas forbade it"),
        pytest.param({"min_insync_replicas": None}, id="min.insync.replicas is not known"),
        pytest.param({"epoch_leaders": {0: 3, 2: 1}}, id="another led that epoch"),
        pytest.param({"epoch_leaders": {2: 1}}, id="nobody knows who led it"),
        pytest.param({"changes": (CLEAN,)}, id="the election was clean"),
        pytest.param({"changes": ()}, id="no election on record"),
    ],
)
def test_what_does_not_prove_a_commit(fields: dict[str, Any]) -> None:
    known = context(**{"changes": (UNCLEAN,), "epoch_leaders": {0: 2, 2: 1}, "min_insync_replicas": 1, **fields})
    proof, losses = at_risk(known, parted(high_watermark=50))
    assert (proof.records, losses) == (0, [])


def test_within_one_epoch_only_copies_of_one_moment_prove_a_loss() -> None:
    longer = compared(run(0, 50), run(0, 80), follower_more={"high_watermark": 70})
    assert longer.newer_epoch is None
    assert committed_proof(context(snapshot_quiet=False), longer).records == 0
    proof, (loss,) = at_risk(context(snapshot_quiet=True), longer)
    assert (proof.records, proof.by) == (20, "checkpoint")
    assert "lost its tail" in loss["cause"]


def test_an_old_epoch_checkpoint_does_not_hide_where_logs_part() -> None:
    found = compared([*run(0, 50), *run(50, 80, epoch=1, crc=7)], run(0, 100), epoch_checkpoint=checkpoint((0, 0)))
    assert found.divergence_offset == 50
