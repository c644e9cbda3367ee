"""How many disks hold what is committed, and what producers were told: on captures that were damaged by hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.damage import copy_of, edit, segments
from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.facts.logs import batch, checkpoint, context, replica
from tidegauge.cli.simulate import scenario_named, simulate
from tidegauge.derivation.files.truth_file import read_ledger
from tidegauge.facts.context import Acknowledged
from tidegauge.facts.replicas.replica_set import ReplicaSet
from tidegauge.facts.replicas.watermarks import HighWatermarkBounds
from tidegauge.facts.risk.acknowledged import acknowledged_columns
from tidegauge.snapshots.manifest import Consistency, Manifest, Mode, Source


def cut(copy: Path, broker: int) -> None:
    """The last segment of a replica is gone, and half of the one before."""
    logs = segments(copy / f"broker-{broker}" / "idem-0")
    edit(logs[-1], lambda data: data.__delitem__(slice(len(data) // 2, None)))


def test_two_replicas_that_lost_their_tails_leave_one_disk(golden: Golden, tmp_path: Path, judge: Judge) -> None:
    copy = copy_of(golden("healthy"), tmp_path / "copy", "idem-0", "__cluster_metadata-0")
    sound = derived(copy).one("partitions", topic="idem", partition=0)
    assert sound["complete_replicas"] == sorted(sound["replicas"]) == [1, 2, 3]
    for broker in (2, 3):
        cut(copy, broker)
    facts = derived(copy)
    assert facts.one("partitions", topic="idem", partition=0)["complete_replicas"] == [1]
    verdicts, breaches = judge.verdicts(facts, "D")
    assert verdicts["D20"].verdict == "breached"
    assert [b.subject for b in breaches if b.code == "D20"] == [{"topic": "idem", "partition": 0}]


def test_the_ledger_alone_is_the_truth_and_alone_judges_by_it(tmp_path: Path, judge: Judge) -> None:
    simulate(scenario_named("lossy-power-cut"), seed=1, out=tmp_path / "sim")
    directory = tmp_path / "sim" / "back"
    row = derived(directory).one("partitions", topic="orders", partition=0)
    assert (row["acknowledged_missing"], row["acknowledged_missing_on"]) == (40, [1, 2, 3])
    assert (row["first_acknowledged_missing_offset"], row["acknowledged_missing_end_offset"]) == (60, 100)
    told, breaches = judge.verdicts(derived(directory), "ABCDEFGHJKL")
    assert [b.code for b in breaches if b.severity != "info"] == ["D19"]
    (directory / "TRUTH.json").unlink()
    silent, _ = judge.verdicts(derived(directory), "ABCDEFGHJKL")
    assert silent["D19"].verdict == "unknown"
    assert {code: v for code, v in told.items() if code != "D19"} == {c: v for c, v in silent.items() if c != "D19"}


def missing(
    *told: tuple[int, int],
    epochs: tuple[tuple[int, int], ...],
    held: tuple[int, ...] = (0,) * 10,
    first: int = 0,
    cleaned: tuple[int, ...] = (),
) -> int | None:
    """How much of (offset, leader epoch) a log lacks: batches of `held` epochs, of which the head is gone and some were
    cleaned away, and a checkpoint that tells these epochs.
    """
    rows = [batch(n, epoch=epoch) for n, epoch in enumerate(held) if n not in cleaned][first:]
    facts = replace(
        replica(*rows, epoch_checkpoint=checkpoint(*epochs)), log_start_offset=0, ever_compacted=bool(cleaned)
    )
    # Another replica was not cleaned, and knows what was written in which epoch.
    whole = replica(*(batch(n, epoch=epoch) for n, epoch in enumerate(held)), broker_id=2)
    live = [whole, facts] if cleaned else [facts]
    ledger = tuple(Acknowledged(base_offset=o, last_offset=o, leader_epoch=epoch) for o, epoch in told)
    columns = acknowledged_columns(
        ReplicaSet(
            context=context(isr=(1,), acknowledged=ledger),
            facts=live,
            live=live,
            reference=facts,
            divergences=[],
            shared_end={},
            bounds=HighWatermarkBounds(lower=None, upper=None),
            commitments={},
        )
    )
    found: int | None = columns["acknowledged_missing"]
    return found


def test_what_lies_below_the_first_epoch_may_have_been_deleted_and_is_not_missing() -> None:
    assert missing((7, 0), epochs=((0, 0),)) == 0
    assert missing((2, 0), (7, 0), epochs=((0, 5),), first=5) is None
    assert missing((2, 0), (12, 0), epochs=((0, 5),), first=5) == 1
    assert missing((7, 1), epochs=((0, 0), (1, 8))) is not None


@pytest.mark.parametrize("start", [4, 5, 6])
def test_a_batch_says_of_which_epoch_it_is_whatever_the_checkpoint_tells(start: int) -> None:
    held = (0,) * 5 + (1,) * 5
    assert missing((4, 0), (5, 1), (9, 1), epochs=((0, 0), (1, start)), held=held) == 0
    assert missing((5, 0), (9, 1), epochs=((0, 0), (1, start)), held=held) == 1


def test_of_what_a_cleaner_took_the_neighbours_tell_the_epochs_that_it_may_have_been_of() -> None:
    """A follower that copies a cleaned log has an epoch begin where its first batch that is left does."""
    held = (0,) * 5 + (1,) * 5
    assert missing((5, 1), epochs=((0, 0), (1, 6)), held=held, cleaned=(5,)) is None
    assert missing((6, 0), epochs=((0, 0), (1, 6)), held=held, cleaned=(5,)) == 1
    assert missing((5, 1), epochs=((0, 0), (1, 6)), held=held) == 0


def test_what_was_told_of_a_topic_that_is_gone_is_not_looked_for_in_its_successor(tmp_path: Path) -> None:
    def told(at_ms: int, offset: int) -> dict[str, object]:
        return {"at_ms": at_ms, "partition": "t-0", "acks": -1, "base_offset": offset, "last_offset": offset} | {
            "leader_epoch": 0
        }

    elections = [{"at_ms": at_ms, "partition": "t-0", "kind": kind} for at_ms, kind in ((5, "first"), (50, "first"))]
    truth = {"acknowledged": [told(10, 3), told(60, 0)], "elections": elections}
    (tmp_path / "TRUTH.json").write_text(json.dumps(truth), encoding="utf-8")
    manifest = Manifest(
        cluster="c",
        cluster_id=None,
        snapshot_id="s",
        source=Source.SIMULATED,
        mode=Mode.FULL,
        consistency=Consistency.ATOMIC,
        brokers=(),
        left_out=(),
    )
    ledger = read_ledger(tmp_path, manifest, [])
    assert ledger == {("t", 0): (Acknowledged(base_offset=0, last_offset=0, leader_epoch=0),)}
