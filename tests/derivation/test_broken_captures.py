"""What of a capture's facts changes when one thing in its files is broken, and that nothing else becomes wrong."""

import builtins
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Golden
from tests.derivation.breaks import (
    EXPECTED,
    PARTITIONS,
    REPLICA,
    Break,
    cut_active_after_a_crash,
    dropped_batch,
    first,
    flip_in_records,
    flip_in_records_of_the_last_batch,
    garbage_checkpoint,
    no_checkpoints,
    other_bytes,
    other_magic,
    remove_first_segment,
    text_log,
)
from tests.derivation.damage import batches, copy_of, edit, place, segments, wrong
from tests.derivation.pipeline import Derived, derived, derived_once
from tests.sampling import one_in
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.manifest import MANIFEST_NAME, to_json


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


@pytest.mark.parametrize(("break_it", "expected"), one_in(4, EXPECTED.items(), [b.__name__ for b in EXPECTED]))
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
    """Rows of every partition but the broken ones, without what the partitions of a broker or a topic share."""
    shared = {"snapshot_id", "broker_quiet", "snapshot_quiet", "broker_alive", "clean_shutdown", "just_loaded"}
    shared |= {"follower_clean_shutdown", "leader_clean_shutdown", "stale_tail", "leader_quiet", "follower_quiet"}
    return {
        relation: [
            {name: value for name, value in row.items() if name not in shared}
            for row in of_relation
            if (row.get("topic"), row.get("partition")) not in {("live", 0), ("livetx", 0), (None, None)}
        ]
        for relation, of_relation in facts.rows.items()
        if relation not in ("brokers", "risks")
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


@pytest.mark.parametrize("break_it", [flip_in_records, other_magic, flip_in_records_of_the_last_batch])
def test_one_flipped_bit_is_one_damaged_batch_wherever_it_is_counted(break_it: Break, copy: Path) -> None:
    break_it(copy)
    facts = derived(copy)
    rows = facts.all("segments", broker_id=2, topic="live", partition=0)
    assert sum(max(r["crc_errors"], r["magic_errors"]) + r["length_errors"] for r in rows) == 1
    assert facts.one("replicas", broker_id=2, topic="live", partition=0)["damaged_batches"] == 1


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
    (copy / REPLICA / "leader-epoch-checkpoint").write_text("0\n1\n0 323\n")  # as the broker leaves it
    facts = derived(copy)
    assert wrong(facts) == wrong(sound)
    assert facts.one("replicas", broker_id=2, topic="live", partition=0)["log_start_offset"] == 323


def test_a_head_that_the_leader_epochs_still_know_of_was_not_copied(copy: Path, sound: Derived) -> None:
    remove_first_segment(copy)
    facts = derived(copy)
    assert wrong(facts) == wrong(sound)
    assert facts.one("replicas", broker_id=2, topic="live", partition=0)["log_start_offset"] == 0
    assert facts.unread()[f"{REPLICA}/{0:020d}.log"] == (
        "not in the copy: its leader-epoch-checkpoint begins at 0, the first segment at 323"
    )


def test_a_capture_itself_tells_what_it_could_not_copy(copy: Path) -> None:
    # A broker deletes segments while it is captured, and writes its leader epochs later.
    remove_first_segment(copy)
    manifest = open_snapshot(copy).manifest
    brokers = tuple(replace(b, read_started_at_ms=1_795_000_000_000) for b in manifest.brokers)
    (copy / MANIFEST_NAME).write_text(to_json(replace(manifest, brokers=brokers)))
    facts = derived(copy)
    assert f"{REPLICA}/{0:020d}.log" not in facts.unread()
    assert facts.one("replicas", broker_id=2, topic="live", partition=0)["log_start_offset"] == 323


def test_a_commit_is_not_ahead_of_a_high_watermark_that_is_known(copy: Path) -> None:
    segments(copy / "broker-2/txn-0")[-1].write_text("hello\n")
    facts = derived(copy)
    assert facts.one("partitions", topic="txn", partition=0)["high_watermark_upper"] == 242
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
    partitions = {(r["topic"], r["partition"]): r for r in facts.rows["partitions"]}
    assert {(r["leader_id"], r["isr"], r["replicas"]) for r in partitions.values()} == {(None, None, None)}
    of_the_logs = ("log_start_offset", "high_watermark_lower", "last_stable_offset")
    for row in (r for r in sound.rows["partitions"] if r["captured_replicas"]):
        of_place = partitions[row["topic"], row["partition"]]
        assert all(of_place[name] == row[name] for name in of_the_logs), of_place
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


def test_what_an_unreadable_segment_held_is_not_called_lost(copy: Path, sound: Derived) -> None:
    segment = segments(copy / REPLICA)[1]
    segment.unlink()
    segment.symlink_to("/nowhere")
    facts = derived(copy)
    assert f"{REPLICA}/{segment.name}" in facts.unread()
    told = {line for line in wrong(facts) - wrong(sound) if "live-0@2" in line}
    assert not [line for line in told if "offset_gaps" in line or "lost_gaps" in line or "differing" in line]
