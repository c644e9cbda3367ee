"""Facts against what the brokers themselves answered when each cluster was captured (GROUND_TRUTH.json)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.derivation.pipeline import Derived, derived_once, topic_partition
from tests.kafka_log import captures
from tests.sampling import chosen
from tidegauge.facts.replicas.epochs import UNDEFINED

CAPTURES = (*captures.CAPTURES, *captures.LIVES)
UNDER_LOAD = ("soak-01", "mirror", "shares")
"""Written to while they were copied; the first were not asked."""
PROBED = tuple(name for name in CAPTURES if name not in UNDER_LOAD)
"""The brokers were asked just before the copy, when no client wrote."""
STOPPED = ("healthy", "epochs", "kafka-4.1", "kafka-3.9", "one-controller")
"""Asked while they ran, copied after a clean stop: leaders and ISR have moved on since."""
DIVERGED = (
    "unclean-before",
    "quorum-changed-unclean",
    "one-controller-unclean",
    "forgotten-unclean",
    "racks-unclean",
    "deaf-unclean",
    "streams-unclean",
    "mirror-unclean",
    "shares-unclean",
    "migrated-unclean",
)
"""A broker that is away holds what was lost when another one was elected."""
UNCLEAN = (*DIVERGED, "one-controller-rejoined", "failed-disk-unclean")
"""The same, and those in which no disk holds it any more."""
SELDOM_CHECKPOINTED = ("one-controller-unclean", "one-controller-rejoined")
"""Their brokers had not written down their high watermarks since they began."""
LISTED = ("pair-clean-b1", "pair-clean-b2", "tiered")
"""These also list what each partition was."""

FEW = {*PROBED[::5], SELDOM_CHECKPOINTED[0], LISTED[0], "tiered", "healthy", "unclean-before"}
"""The fast run derives these, each once for all tests; the whole suite takes every capture."""

Truth = dict[str, Any]


def truth_of(directory: Path) -> Truth:
    value: Truth = json.loads((directory / "GROUND_TRUTH.json").read_text(encoding="utf-8"))
    return value


@pytest.fixture
def facts(golden: Golden, name: str) -> Derived:
    return derived_once(golden(name))


@pytest.fixture
def truth(golden: Golden, name: str) -> Truth:
    return truth_of(golden(name))


def partition_rows(facts: Derived) -> dict[str, Truth]:
    return {f"{row['topic']}-{row['partition']}": row for row in facts.rows["partitions"]}


@pytest.mark.parametrize("name", chosen(FEW, PROBED))
def test_every_partition_that_the_brokers_told_of_is_there_and_no_other(facts: Derived, truth: Truth) -> None:
    probe = truth["probe_at_capture"]
    told = {f"{topic}-{p['partition']}" for topic, d in probe["topics"].items() for p in d["partitions"]}
    assert partition_rows(facts).keys() == told
    rows = partition_rows(facts)
    for topic, of_topic in probe["topics"].items():
        for p in of_topic["partitions"]:
            row = rows[f"{topic}-{p['partition']}"]
            assert (row["topic_id"], row["replicas"]) == (of_topic["topic_id"], p["replicas"])


@pytest.mark.parametrize("name", chosen(FEW, [n for n in PROBED if n not in STOPPED]))
def test_leaders_isr_and_elr_of_a_live_copy(facts: Derived, truth: Truth) -> None:
    rows = partition_rows(facts)
    for topic, of_topic in truth["probe_at_capture"]["topics"].items():
        for p in of_topic["partitions"]:
            row = rows[f"{topic}-{p['partition']}"]
            assert row["leader_id"] == p["leader"], row
            assert sorted(row["isr"]) == sorted(p["isr"]), row
            assert sorted(row["elr"]) == sorted(p["elr"]), row
            assert row["last_known_elr"] == p["last_known_elr"], row


@pytest.mark.parametrize("name", chosen(FEW, STOPPED))
def test_a_stopped_cluster_has_a_last_leader_and_one_moment(facts: Derived, truth: Truth) -> None:
    for row in facts.rows["partitions"]:
        assert row["cluster_stopped"] is True
        assert row["snapshot_quiet"] is True
        assert row["leader_id"] is None or row["leader_id"] in row["isr"]
        assert row["leader_id"] is not None or row["last_leader_id"] in row["replicas"]
        assert row["captured_replicas"] == sorted(row["replicas"])


@pytest.mark.parametrize("name", chosen(FEW, [n for n in PROBED if n not in SELDOM_CHECKPOINTED]))
def test_offsets_are_those_that_the_brokers_listed(facts: Derived, truth: Truth) -> None:
    listed = truth["probe_at_capture"]["list_offsets"]
    rows = partition_rows(facts)
    assert listed["earliest"].keys() == rows.keys()
    for partition, row in rows.items():
        high_watermark = listed["latest"][partition]["offset"]
        assert row["log_start_offset"] == listed["earliest"][partition]["offset"], partition
        # Nobody wrote for seconds before the copy, so the bounds meet though the copy is a live one.
        assert (row["high_watermark_lower"], row["high_watermark_upper"]) == (high_watermark, high_watermark), partition
        assert row["last_stable_offset"] == listed["latest_read_committed"][partition]["offset"], partition
        assert row["log_end_offset"] == high_watermark, partition


@pytest.mark.parametrize("name", chosen(FEW, SELDOM_CHECKPOINTED))
def test_without_checkpoints_the_bounds_of_a_high_watermark_hold_what_the_brokers_listed(
    facts: Derived, truth: Truth
) -> None:
    listed = truth["probe_at_capture"]["list_offsets"]
    apart = 0
    for partition, row in partition_rows(facts).items():
        high_watermark = listed["latest"][partition]["offset"]
        assert row["log_start_offset"] == listed["earliest"][partition]["offset"], partition
        assert row["log_end_offset"] == high_watermark, partition
        assert row["high_watermark_lower"] is None or row["high_watermark_lower"] <= high_watermark, partition
        assert row["high_watermark_upper"] is None or row["high_watermark_upper"] >= high_watermark, partition
        apart += row["high_watermark_lower"] != row["high_watermark_upper"]
    assert apart > 0


@pytest.mark.parametrize("name", chosen(FEW, LISTED))
def test_offsets_are_those_that_are_written_down_by_partition(facts: Derived, truth: Truth) -> None:
    rows = partition_rows(facts)
    assert truth["partitions"].keys() == rows.keys()
    for partition, told in truth["partitions"].items():
        row = rows[partition]
        assert row["log_start_offset"] == told["log_start"], partition
        assert row["high_watermark_lower"] == row["high_watermark_upper"] == told["hw"], partition
        assert row["last_stable_offset"] == told["lso"], partition
        reference = facts.reference_of(*topic_partition(partition))
        if "local_log_start" in told:
            assert reference.local_log_start_offset == told["local_log_start"], partition
        if told["hw"] > told["log_start"]:
            assert reference.vector.epoch_at(told["hw"]) == told["leader_epoch_at_hw"], partition


def test_high_watermark_bounds_of_a_copy_under_load_hold_what_the_cluster_had_committed(golden: Golden) -> None:
    facts = derived_once(golden("soak-01"))
    for row in facts.rows["partitions"]:
        lower, upper = row["high_watermark_lower"], row["high_watermark_upper"]
        assert lower is not None, row
        assert upper is None or lower <= upper <= row["log_end_offset"], row
    loaded = [r for r in facts.rows["partitions"] if r["high_watermark_lower"] != r["high_watermark_upper"]]
    assert loaded, "the copy was made under load: some bounds must be apart"


@pytest.mark.parametrize("name", chosen(FEW, PROBED))
def test_sizes_are_those_that_the_brokers_described(facts: Derived, truth: Truth) -> None:
    checked = 0
    for broker, log_dirs in truth["probe_at_capture"]["log_dirs"].items():
        for of_dir in log_dirs.values():
            for partition, told in of_dir["replicas"].items():
                topic, number = topic_partition(partition)
                row = facts.one("replicas", broker_id=int(broker), topic=topic, partition=number)
                assert row["size_bytes"] == told["size"], (broker, partition)
                assert row["is_future"] == told["future"], (broker, partition)
                checked += 1
    assert checked >= 10


@pytest.mark.parametrize("name", chosen(FEW, PROBED))
def test_leader_epochs_end_where_the_leader_said(facts: Derived, truth: Truth, name: str) -> None:
    answered = 0
    for partition, answers in truth["leader_epoch_answers"].items():
        vector = facts.reference_of(*topic_partition(partition)).vector
        assert vector.end_offset_for(1_000) == UNDEFINED
        for answer in answers:
            asked, told = answer["requested_epoch"], (answer["leader_epoch"], answer["end_offset"])
            newest = -1 if vector.latest_epoch is None else vector.latest_epoch
            if name in STOPPED and told[1] == vector.log_end_offset and asked > newest:
                # Leadership has moved since, and a follower keeps no epoch that has no record (truncateFromEnd).
                continue
            found = vector.end_offset_for(asked)
            assert (found.leader_epoch, found.end_offset) == told, (partition, answer)
            answered += 1
    assert answered >= 7


def test_the_epochs_capture_asks_for_many_epochs_and_for_some_without_a_record(golden: Golden) -> None:
    answers = truth_of(golden("epochs"))["leader_epoch_answers"]
    assert max(len(a) for a in answers.values()) >= 7
    ends = [x["end_offset"] for x in answers["idle-0"]]
    assert len(set(ends)) < len(ends), "idle-0 has epochs without a record"


@pytest.mark.parametrize("name", chosen(FEW, PROBED))
def test_producers_are_as_the_leader_described_them(facts: Derived, truth: Truth, name: str) -> None:
    checked = 0
    for partition, told in truth["probe_at_capture"]["describe_producers_leader"].items():
        topic, _ = topic_partition(partition)
        reference = facts.reference_of(*topic_partition(partition))
        # A broker knows a producer from the log, or, where retention or cleaning took its batches, from its snapshot.
        states = {**(reference.snapshot_replay.states if reference.snapshot_replay else {}), **reference.replay.states}
        for producer in told:
            state = states[producer["pid"]]
            where = (partition, producer)
            assert state.producer_epoch == producer["epoch"], where
            assert state.timestamp == producer["last_ts"], where
            assert state.coordinator_epoch == producer.get("coordinator_epoch", -1), where
            assert state.current_transaction_first_offset == producer.get("txn_start"), where
            if topic != "__consumer_offsets":
                assert state.last_sequence == producer["last_seq"], where
            checked += 1
    assert checked > 0 or name == "pair-clean-b1", "only there had every producer expired"


@pytest.mark.parametrize("name", chosen(FEW, PROBED))
def test_a_producer_that_the_leader_did_not_describe_had_expired(facts: Derived, truth: Truth) -> None:
    asked_at = truth["probe_at_capture"]["wallclock_ms"]
    for partition, told in truth["probe_at_capture"]["describe_producers_leader"].items():
        known = {p["pid"] for p in told}
        for producer_id, state in facts.reference_of(*topic_partition(partition)).replay.states.items():
            if producer_id not in known:
                assert asked_at - state.timestamp > 10_000, (partition, state)


def test_the_losses_of_the_unclean_election(golden: Golden) -> None:
    facts, truth = derived_once(golden("unclean-before")), truth_of(golden("unclean-before"))
    found = {f"{x['topic']}-{x['partition']}": x for x in facts.rows["losses"]}
    assert found.keys() == truth["acked_then_lost"].keys() == {"orders-0", "payments-0", "payments-1"}
    for partition, told in truth["acked_then_lost"].items():
        loss = found[partition]
        ((first, last),) = told["lost_acked_ranges_written_by_A"]
        assert (loss["start_offset"], loss["end_offset"], loss["records"]) == (first, last + 1, told["count"])
        assert (loss["held_by"], loss["leader_epoch"], loss["state"]) == ([1], 0, "at_risk")
        assert loss["declared_committed"] == told["count"]
        assert loss["cause"].startswith("unclean election: record ")
    assert (found["orders-0"]["start_offset"], found["orders-0"]["records"]) == (800, 700)
    assert (found["payments-0"]["start_offset"], found["payments-0"]["records"]) == (463, 250)


def test_divergence_points_of_the_unclean_election(golden: Golden) -> None:
    facts = derived_once(golden("unclean-before"))
    parted = {
        (r["topic"], r["partition"], r["follower_id"]): r
        for r in facts.rows["divergences"]
        if r["divergence_offset"] < r["follower_log_end_offset"]
    }
    assert parted.keys() == {("orders", 0, 1), ("payments", 0, 1), ("payments", 1, 1)}
    for (topic, _, _), row in parted.items():
        cut = 800 if topic == "orders" else 463
        assert row["divergence_offset"] == row["first_differing_offset"] == cut
        assert row["first_differing_undiverged_offset"] is None
        assert row["identity_violation_offset"] is None
        assert (row["truncated_leader_epoch"], row["newer_epoch"], row["newer_epoch_start_offset"]) == (0, 1, cut)
        assert (row["isr_before_election"], row["committed_proof"]) == ([1], "sole_isr")
        assert row["truncation_rounds"] == 1
    elections = facts.all("partition_changes", election="unclean")
    assert {(r["topic"], r["partition"]) for r in elections} == {("orders", 0), ("payments", 0), ("payments", 1)}
    assert all(r["old_lineage_holders"] == [1] and r["records_at_stake_known"] for r in elections)


@pytest.mark.parametrize("name", chosen(FEW, [n for n in CAPTURES if n not in UNCLEAN]))
def test_a_cluster_that_lost_nothing_shows_no_loss(facts: Derived) -> None:
    assert facts.rows["losses"] == []
    assert not facts.all("partition_changes", election="unclean")
    for row in facts.rows["divergences"]:
        assert row["identity_violation_offset"] is None, row
        assert row["first_differing_committed_offset"] is None, row
        assert row["first_differing_undiverged_offset"] is None, row
        assert row["declared_committed"] == 0, row


@pytest.mark.parametrize("name", chosen(FEW, [n for n in PROBED if n not in DIVERGED]))
def test_replicas_of_a_cluster_at_rest_do_not_part(facts: Derived) -> None:
    compared = 0
    for row in facts.rows["divergences"]:
        if row["topic"] == "__cluster_metadata":
            continue  # Three controllers, copied one after the other while NO_OP records went on.
        assert row["divergence_offset"] == row["follower_log_end_offset"], row
        assert row["first_differing_offset"] is None, row
        assert row["records_at_stake"] == 0, row
        compared += row["comparable"]
    assert compared > 5


def test_open_transactions_and_which_of_them_hangs(golden: Golden) -> None:
    facts, truth = derived_once(golden("hanging-txn")), truth_of(golden("hanging-txn"))
    opened = {(r["topic"], r["partition"]): r for r in facts.all("transactions", outcome="open")}
    assert opened.keys() == {("pay", 0), ("raw", 0), ("__consumer_offsets", 0)}
    known, ghost = opened["pay", 0], opened["raw", 0]
    assert (known["transactional_id"], known["hanging"], known["coordinator_state"]) == ("hang-tx", False, "Ongoing")
    assert known["coordinator_lists_partition"] is True
    assert opened["__consumer_offsets", 0]["hanging"] is False
    assert ghost["hanging"] is True
    assert (ghost["producer_id"], ghost["producer_epoch"]) == (truth["ghost"]["pid"], truth["ghost"]["epoch"])
    assert (ghost["first_offset"], ghost["record_count"]) == (truth["ghost"]["base_offset"], truth["ghost"]["count"])
    assert [r["hanging"] for r in facts.rows["transactions"]].count(True) == 1


@pytest.mark.parametrize("name", chosen(FEW, [n for n in CAPTURES if n != "hanging-txn"]))
def test_nothing_hangs_elsewhere(facts: Derived) -> None:
    assert not [r for r in facts.rows["transactions"] if r["hanging"] and r["snapshot_quiet"]]
    assert not [r for r in facts.rows["transactions"] if r["contradicting_markers"]]


@pytest.mark.parametrize("name", chosen(FEW, CAPTURES))
def test_sound_clusters_have_sound_files(facts: Derived) -> None:
    for row in facts.rows["segments"]:
        errors = {k: v for k, v in row.items() if k.endswith("_errors") and v}
        # The copy under load may hold a batch that was being written: that is a torn tail.
        if row["torn_tail"]:
            assert row["is_active"], row
            assert not row["broker_quiet"], row
            errors.pop("length_errors")
        assert errors == {}, row
        assert row["offset_gaps"] == 0, row
    for row in facts.rows["producers"]:
        broken = ("lost_gaps", "nonzero_starts", "epoch_regressions", "duplicate_batches", "overlapping_batches")
        assert not any(row[k] for k in broken), row
    for row in facts.rows["index_files"]:
        if row["broker_quiet"]:
            assert row["form_errors"] == row["pointer_errors"] == row["range_errors"] == 0, row
        if row["content_checkable"]:
            assert row["missing_entries"] == row["extra_entries"] == row["wrong_entries"] == 0, row
            assert row["last_stable_offset_errors"] == 0, row
        # Retention had renamed the segments away, and their last producer snapshot was still to go.
        swept = not row["broker_quiet"] and row["base_offset"] < row["local_log_start_offset"]
        assert not row["misplaced"] or swept, row
    assert not [reason for reason in facts.unread().values() if "cannot be read" in reason]
