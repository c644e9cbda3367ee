"""Who led last is elected again after it crashed and lost its tail: what that election gives up, and that it did it.

In: live-0 of `healthy`, whose last leader, broker 1, has lost its last batches and its clean stop. In the metadata log
both eligible replicas have gone, as they do of which each registers without a clean stop, and the last record makes
broker 1 leader again and marks it as recovering (PartitionChangeBuilder#electAnyLeader).
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.damage import batches, copy_of, segments
from tests.derivation.judging import Judge
from tests.derivation.metadata_damage import metadata_logs, metadata_record, records_of, rewrite
from tests.derivation.pipeline import Derived, derived
from tests.derivation.rejoined import truncate
from tests.derivation.storage_breaks import only_what_is_there
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach, fold
from tidegauge.kafka_log.metadata_records import MetadataRecord
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import Consistency

PARTITIONS = ("__cluster_metadata-0", "live-0")
ALL_STOPPED, ELECTED, EPOCH = 454, 460, 3
"""Records of the metadata log: the last change of live-0, and the last one at all; the epoch that begins there."""
END = 977


def elected_again(directory: Path) -> None:
    found = dict(records_of(metadata_logs(directory)[0]))
    stopped = found[ALL_STOPPED]
    assert stopped.fields["last_known_elr"] == (1,)
    fields = {n: stopped.fields[n] for n in ("topic_id", "partition_id")}
    election = metadata_record(
        "PartitionChangeRecord",
        stopped.version,
        **fields,
        isr=(1,),
        leader=1,
        leader_recovery_state=1,
        eligible_leader_replicas=(),
        last_known_elr=(),
    )
    nobody = replace(stopped, fields={**stopped.fields, "eligible_leader_replicas": ()})

    def change(offset: int, record: MetadataRecord) -> MetadataRecord:
        return {ALL_STOPPED: nobody, ELECTED: election}.get(offset, record)

    rewrite(metadata_logs(directory), change)


def without_tail(directory: Path) -> int:
    """Broker 1 has lost its last three batches, and knows nothing of them."""
    end = int(batches(segments(directory / "broker-1/live-0")[-1])["base_offset"][-3])
    truncate(directory / "broker-1/live-0", end)
    (directory / "broker-1/.kafka_cleanshutdown").unlink()
    return end


@pytest.fixture
def crashed(golden: Golden, tmp_path: Path) -> Path:
    directory = copy_of(golden("healthy"), tmp_path / "crashed", *PARTITIONS)
    only_what_is_there(directory)
    elected_again(directory)
    return directory


def of_live(judge: Judge, facts: Derived) -> dict[str, list[Breach]]:
    """Breaches of live-0 above info, by code."""
    _, breaches = judge.verdicts(facts, {code[0] for code in CATALOGUE})
    found: dict[str, list[Breach]] = {}
    for breach in fold(breaches, CATALOGUE):
        if breach.subject.get("topic") == "live" and breach.severity != "info":
            found.setdefault(breach.code, []).append(breach)
    return found


@pytest.mark.slow
def test_the_election_of_who_led_last_and_lost_its_tail_is_told_and_is_the_cause(crashed: Path, judge: Judge) -> None:
    end = without_tail(crashed)
    adopt(crashed, cluster="healthy", consistency=Consistency.QUIESCED)
    facts = derived(crashed)
    found = of_live(judge, facts)
    (loss,) = facts.rows["losses"]
    (election,) = found["K07"]
    assert election.subject["metadata_offset"] == ELECTED
    assert "which had led last, leader again" in election.explanation
    assert f"{END - end} records of the old lineage" in election.explanation
    (size,) = found["D18"]
    assert (size.records, size.evidence["old_lineage_holders"]) == (END - end, [2, 3])
    assert "had led last, and came back recovering" in size.explanation
    assert (loss["start_offset"], loss["end_offset"], loss["state"], loss["held_by"]) == (end, END, "at_risk", [2, 3])
    assert loss["cause"].startswith(f"election of who had led last: record {ELECTED} of the metadata log")


def test_who_led_last_and_lost_nothing_gives_nothing_up(crashed: Path, judge: Judge) -> None:
    (crashed / "broker-1/.kafka_cleanshutdown").unlink()
    adopt(crashed, cluster="healthy", consistency=Consistency.QUIESCED)
    facts = derived(crashed)
    assert not {"K07", "D18", "D06"} & of_live(judge, facts).keys()
    assert facts.rows["losses"] == []


@pytest.mark.slow
def test_beside_an_earlier_copy_what_it_cut_off_is_lost_by_that_election(
    crashed: Path, golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    before = copy_of(golden("healthy"), tmp_path / "before", *PARTITIONS)
    end = without_tail(crashed)
    for broker in (2, 3):
        truncate(crashed / f"broker-{broker}/live-0", end)
    for broker in (1, 2, 3):
        epochs = crashed / f"broker-{broker}/live-0/leader-epoch-checkpoint"
        epochs.write_text(f"0\n2\n0 0\n{EPOCH} {end}\n")
    adopt(crashed, cluster="healthy", consistency=Consistency.QUIESCED)
    facts = derived(crashed, previous=before)
    found = of_live(judge, facts)
    (loss,) = facts.rows["losses"]
    assert (loss["start_offset"], loss["end_offset"], loss["state"], loss["records"]) == (end, END, "lost", END - end)
    assert loss["cause"].startswith(f"election of who had led last: record {ELECTED} of the metadata log")
    told = next(b for b in found["C10"] if b.implied_by is None)
    assert f"Election: offset {ELECTED} of the metadata log" in told.explanation
    assert "No unclean election is on record" not in told.explanation
