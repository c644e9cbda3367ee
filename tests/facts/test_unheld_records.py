"""Records that groups had read and that no replica at hand holds: told once, beside whatever else a partition lost."""

from typing import Any

import pytest

from tests.facts.logs import Disks, batch, context, headers, replica_input, segment
from tidegauge.facts.replicas.replica_set import ReplicaSet, replica_set
from tidegauge.facts.risk.unheld_records import unheld_losses
from tidegauge.kafka_log.coordinator_records import OffsetCommit


def present(reached: dict[int, int], **known: Any) -> ReplicaSet:
    """Broker 1 leads epoch 2 from 50; nobody else has a replica. A group has committed under these epochs."""
    rows = headers(*(batch(at, 10) for at in range(0, 50, 10)), *(batch(at, 10, epoch=2) for at in range(50, 80, 10)))
    of_partition = context(leader_epoch=2, replicas=(1,), isr=(1,), reached={"readers": reached}, **known)
    return replica_set(of_partition, [replica_input(segment(rows))], read=Disks(broker_1=rows))


def told(replicas: ReplicaSet, *others: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = unheld_losses(replicas, others, None)
    return [(r["start_offset"], r["end_offset"], r["leader_epoch"], r["state"]) for r in rows]


def loss(start: int, end: int, **fields: Any) -> dict[str, Any]:
    return {"start_offset": start, "end_offset": end, "leader_epoch": 0, "held_by": [], **fields}


def test_what_was_read_beyond_where_its_epoch_ends_is_lost() -> None:
    assert told(present({0: 70})) == [(50, 70, 0, "lost")]
    assert told(present({0: 50, 2: 80})) == []
    earlier = {"t" * 22: False, "e" * 22: True}
    assert told(present({0: 70}, topic_ids_deleted=earlier)) == [], "an earlier topic of that name had its own epoch 0"


def test_what_an_earlier_copy_told_of_is_not_told_again() -> None:
    assert told(present({0: 70}), loss(50, 70)) == []
    assert told(present({0: 70}), loss(55, 60)) == [(50, 55, 0, "lost"), (60, 70, 0, "lost")]
    assert told(present({0: 70}), loss(50, 60, leader_epoch=1), loss(60, 65)) == [(65, 70, 0, "lost")]


def test_another_loss_at_the_same_offsets_hides_nothing() -> None:
    held = loss(50, 70, held_by=[3], leader_epoch=1)
    assert told(present({0: 70}), held) == [(50, 70, 0, "lost")], "what broker 3 holds is of another epoch"
    assert told(present({1: 70}), loss(50, 70)) == [(50, 70, 1, "lost")], "an older epoch's records are others"


# ------------------------------------------------------------------------------------------------------- without epochs

COMMITTED_AT_MS = 5_000


def old_format(*, written_at_ms: int, epoch: int = -1, **known: Any) -> ReplicaSet:
    """Broker 1's log up to 50, its last batch written then; a group has committed 70. No metadata log."""
    rows = headers(batch(0, 40, epoch=epoch), batch(40, 10, epoch=epoch, timestamp=written_at_ms))
    commit = OffsetCommit(
        group="readers", topic="t", partition=0, offset=70, leader_epoch=None, commit_timestamp_ms=COMMITTED_AT_MS,
        topic_id=None, version=None, tombstone=False,
    )  # fmt: skip
    unnamed = {"known": False, "captured": False, "leader_id": None, "leader_epoch": None}
    context_of = context(
        **{**unnamed, "replicas": (), "isr": (), "commits": (commit,), "snapshot_quiet": False, **known}
    )
    return replica_set(context_of, [replica_input(segment(rows))], read=Disks(broker_1=rows))


def test_what_was_read_beyond_every_log_without_epochs_may_be_lost() -> None:
    assert told(old_format(written_at_ms=COMMITTED_AT_MS + 1)) == [(50, 70, None, "possible")]
    assert told(old_format(written_at_ms=1_000, snapshot_quiet=True)) == [(50, 70, None, "possible")]


@pytest.mark.parametrize(
    "known",
    [
        pytest.param({"written_at_ms": COMMITTED_AT_MS}, id="the log was copied before the commit"),
        pytest.param(
            {"written_at_ms": COMMITTED_AT_MS + 1, "epoch": 0}, id="by its leader epoch the commit would tell"
        ),
        pytest.param(
            {"written_at_ms": COMMITTED_AT_MS + 1, "known": True, "replicas": (1,)},
            id="nobody else has a replica",
        ),
    ],
)
def test_a_commit_beyond_the_log_proves_nothing_where(known: dict[str, Any]) -> None:
    assert told(old_format(**known)) == []
