"""Which captured nodes are brokers, which directories are theirs, and what is said of those that are not here."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.apart import METADATA, add_controller, metadata_apart, say, whole_copy
from tests.derivation.judging import Judge
from tests.derivation.pipeline import Derived, Row, derived, derived_once
from tests.sampling import one_in
from tidegauge.expectations.diagnosis import diagnose
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.expectations.verdicts import Breach, fold
from tidegauge.snapshots.adopt import adopt, open_snapshot
from tidegauge.snapshots.capture import Capture, capture
from tidegauge.snapshots.copying import Meter
from tidegauge.snapshots.file_taking import Way
from tidegauge.snapshots.manifest import Consistency, Mode
from tidegauge.snapshots.sources import broker_sources
from tidegauge.snapshots.throttle import Throttle
from tidegauge.snapshots.verification import verify

OTHER = "ZZZZZZZZZZZZZZZZZZZZZZ"


def judged(judge: Judge, facts: Derived) -> tuple[Breach, ...]:
    """Roots above information."""
    _, breaches = judge.verdicts(facts, {c[0] for c in CATALOGUE})
    found = diagnose(fold(breaches, CATALOGUE), {})
    return tuple(b for b in found if b.implied_by is None and b.severity != "info")


# ------------------------------------------------------------------ a metadata.log.dir, controllers that are no brokers


def test_a_real_cluster_with_metadata_log_dirs_and_a_controller_is_sound(golden: Golden, judge: Judge) -> None:
    facts = derived_once(golden("disk-failed"))
    assert judged(judge, facts) == ()
    assert [r["broker_id"] for r in facts.rows["brokers"]] == [1, 2]
    assert [b.broker_id for b in facts.context.nodes.brokers] == [1, 2]
    assert [b.broker_id for b in facts.context.nodes.controllers] == [100]
    assert {r["broker_id"] for r in facts.rows["metadata_logs"]} == {1, 2, 100}
    for row in facts.rows["brokers"]:
        assert row["unregistered_directory_ids"] == []
        assert "meta" in row["log_dirs"]


def test_nobody_has_checkpoints_in_a_metadata_log_dir(golden: Golden) -> None:
    files = derived_once(golden("disk-failed")).rows["checkpoint_files"]
    assert {f["kind"] for f in files if f["log_dir"] == "meta"} == {
        "meta.properties",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "quorum-state",
    }
    assert {f["kind"] for f in files if f["log_dir"] == "d1"} > {"replication-offset-checkpoint"}


def test_a_clean_stop_is_told_by_the_log_dirs_and_not_by_the_metadata_log_dir(golden: Golden) -> None:
    facts = derived_once(golden("disk-failed-stopped"))
    assert facts.context.nodes.quiet == {1, 2}
    assert facts.context.nodes.one_moment
    assert not facts.context.nodes.metadata_one_moment, "the controller may have gone on"
    assert {r["clean_shutdown"] for r in facts.rows["brokers"]} == {True}
    for row in facts.rows["replicas"]:
        own = row["topic"] != "__cluster_metadata"
        assert row["snapshot_quiet"] == own
        assert row["broker_quiet"] == (row["broker_id"] != 100)


@pytest.mark.slow
def test_the_same_files_in_other_directories_say_the_same(golden: Golden, judge: Judge, tmp_path: Path) -> None:
    copy = whole_copy(golden("healthy"), tmp_path / "copy")
    metadata_apart(copy)
    facts = derived(copy)
    assert judged(judge, facts) == ()
    sound = derived_once(golden("healthy"))
    assert facts.context.nodes.one_moment == sound.context.nodes.one_moment
    assert len(facts.rows["replicas"]) == len(sound.rows["replicas"])
    add_controller(copy)
    facts = derived(copy)
    assert judged(judge, facts) == ()
    assert [r["broker_id"] for r in facts.rows["brokers"]] == [1, 2, 3]


def test_log_dirs_may_lie_below_the_metadata_log_dir(golden: Golden, judge: Judge, tmp_path: Path) -> None:
    """log.dirs=/kafka/d1,/kafka/d2 and metadata.log.dir=/kafka."""
    copy = tmp_path / "copy"
    shutil.copytree(golden("disk-failed"), copy)
    for node in (1, 2):
        home = copy / f"broker-{node}"
        for path in (home / "meta").iterdir():
            path.rename(home / path.name)
        (home / "meta").rmdir()
    facts = derived(copy)
    assert [d.name for b in facts.manifest.brokers for d in b.log_dirs] == [".", "d1", "d2", ".", ".", "d1"]
    same = derived_once(golden("disk-failed"))
    assert len(facts.rows["replicas"]) == len(same.rows["replicas"])
    assert judged(judge, facts) == ()
    assert facts.unread() == same.unread()
    sources, cluster_id = broker_sources([f"1={copy / 'broker-1'},{copy / 'broker-1/d1'},{copy / 'broker-1/d2'}"])
    way = Way(mode=Mode.FULL)
    wanted = Capture(
        cluster="c", snapshot_id="s", out=tmp_path / "out", sources=sources, cluster_id=cluster_id, way=way
    )
    captured = capture(wanted, Meter(throttle=Throttle(None)))
    files = [f.path.removeprefix("broker-1/").removeprefix("broker-1/") for f in captured.brokers[0].files]
    there = {p.relative_to(copy / "broker-1").as_posix() for p in (copy / "broker-1").rglob("*") if p.is_file()}
    assert sorted(files) == sorted(there)


def test_what_is_not_called_as_a_brokers_directory_is_named(golden: Golden, tmp_path: Path) -> None:
    copy = whole_copy(golden("disk-failed"), tmp_path / "copy")
    for name in ("broker-01", "broker-2 (copy)", "broker-x"):
        shutil.copytree(golden("disk-failed") / "broker-1", copy / name)
    manifest = open_snapshot(copy).manifest
    assert [b.broker_id for b in manifest.brokers] == [1, 100, 2]
    assert {x.path: x.reason for x in manifest.left_out} == dict.fromkeys(
        ("broker-01", "broker-2 (copy)", "broker-x"), "not read: it is not called broker-<node.id>"
    )


@pytest.mark.slow
def test_a_broker_of_which_only_the_metadata_log_was_captured_stays_a_broker(golden: Golden, tmp_path: Path) -> None:
    copy = whole_copy(golden("healthy"), tmp_path / "copy")
    metadata_apart(copy)
    shutil.rmtree(copy / "broker-3/data")
    facts = derived(copy)
    assert [b.broker_id for b in facts.context.nodes.brokers] == [1, 2, 3]
    (gone,) = facts.context.nodes.absent.log_dirs
    assert (gone.broker_id, gone.registered) == (3, True)
    assert facts.one("brokers", broker_id=3)["missing_replicas"] == []
    assert facts.unread()[f"broker-3/{gone.directory_id}"].startswith("a log dir that the broker has registered")


def test_a_controller_alone_is_no_broker_and_names_the_brokers(golden: Golden, tmp_path: Path) -> None:
    shutil.copytree(golden("disk-failed") / "broker-100", tmp_path / "copy" / "broker-100")
    facts = derived(tmp_path / "copy")
    assert facts.context.nodes.brokers == ()
    assert [r["broker_id"] for r in facts.all("brokers", captured=False)] == [1, 2]
    assert facts.all("brokers", captured=True) == []


@pytest.mark.slow
def test_a_controllers_wrong_file_is_told_all_the_same(golden: Golden, judge: Judge, tmp_path: Path) -> None:
    copy = whole_copy(golden("healthy"), tmp_path / "copy")
    say(add_controller(copy), cluster_id=OTHER)
    (breach,) = judged(judge, derived(copy))
    assert (breach.code, breach.subject) == ("B22", {"broker_id": 100})
    assert "broker-100/meta.properties" in breach.explanation


@pytest.mark.slow
def test_nodes_without_their_metadata_log_are_named_with_the_true_reason(golden: Golden, tmp_path: Path) -> None:
    copy = whole_copy(golden("healthy"), tmp_path / "copy")
    metadata_apart(copy)
    for node in (1, 2):
        shutil.rmtree(copy / f"broker-{node}/meta")
    facts = derived(copy)
    assert facts.context.nodes.absent.metadata_logs == (1, 2)
    told = {p: r for p, r in facts.unread().items() if p.endswith(METADATA)}
    assert set(told) == {f"broker-1/{METADATA}", f"broker-2/{METADATA}"}
    assert all("none of the node's log dirs holds its metadata log" in r for r in told.values())


@pytest.mark.slow
def test_without_any_metadata_log_no_verdict_says_what_it_does_not_tell(
    golden: Golden, judge: Judge, tmp_path: Path
) -> None:
    copy = whole_copy(golden("healthy"), tmp_path / "copy")
    for node in (1, 2, 3):
        shutil.rmtree(copy / f"broker-{node}/{METADATA}")
    results, _ = judge.verdicts(derived(copy), {c[0] for c in CATALOGUE})
    reasons = {reason for result in results.values() for reason in result.reasons}
    assert not [reason for reason in reasons if "the metadata log" in reason or "election not on record" in reason]
    for code in ("A18", "B21", "D15", "E07", "F15", "J08"):
        assert "metadata log not in the copy" in results[code].reasons


def test_a_broker_of_zookeepers_time_lacks_no_metadata_log(golden: Golden) -> None:
    facts = derived_once(golden("zookeeper"))
    assert not [p for p in facts.unread() if p.endswith(METADATA)]
    assert "are of a ZooKeeper cluster" in why_no_metadata_log(facts)


@pytest.mark.parametrize("name", ["migrating", "migrated"])
def test_a_broker_that_came_from_a_zookeeper_lacks_its_metadata_log(golden: Golden, tmp_path: Path, name: str) -> None:
    """Its meta.properties are of version 0 for ever."""
    copy = whole_copy(golden(name), tmp_path / "copy")
    for path in sorted(copy.glob(f"broker-*/{METADATA}")):
        assert "version=0" in (path.parent / "meta.properties").read_text() or path.parent.name == "broker-101"
        shutil.rmtree(path)
    facts = derived(copy)
    assert {f"broker-{node}/{METADATA}" for node in (1, 2, 3, 101)} <= set(facts.unread())
    assert "ZooKeeper" not in why_no_metadata_log(facts)


def test_a_registered_controller_that_is_not_in_the_copy_is_missing(golden: Golden, tmp_path: Path) -> None:
    assert "controllers" not in "".join(m.why for m in derived_once(golden("migrated")).missing())
    copy = whole_copy(golden("migrated"), tmp_path / "copy")
    shutil.rmtree(copy / "broker-101")
    assert "the own copies of controllers [101]" in why_no_metadata_log(derived(copy))


def why_no_metadata_log(facts: Derived) -> str:
    (piece,) = [m for m in facts.missing() if m.evidence is Evidence.METADATA_LOG]
    return piece.why


# --------------------------------------------------------------------------------------------------- one wrong file


def breaks() -> dict[str, tuple[Callable[[Path], None], str]]:
    """What is done to broker 3's file, and what of it is said."""

    def with_bytes(data: bytes) -> Callable[[Path], None]:
        def write(home: Path) -> None:
            (home / "meta.properties").unlink()
            (home / "meta.properties").write_bytes(data)

        return write

    return {
        "cluster": (lambda home: say(home, cluster_id=OTHER), f"meta.properties: cluster.id={OTHER}"),
        "node": (lambda home: say(home, node_id="7"), "meta.properties: node.id=7"),
        "twice": (lambda home: say(home, node_id="2"), "meta.properties: node.id=2"),
        "empty": (with_bytes(b""), "names neither a cluster nor a node"),
        "garbage": (with_bytes(b"\xff\x00\xff=\n\x00"), "names neither a cluster nor a node"),
        "half": (with_bytes(b"version=1\ncluster.id=0EXTuYGaRBOm64fYFazsDQ\n"), "has no node.id"),
    }


@pytest.mark.parametrize("name", one_in(8, list(breaks())))
def test_one_wrong_file_of_a_disk_that_is_known_stops_nobody_and_is_the_only_breach(
    name: str, golden: Golden, judge: Judge, tmp_path: Path
) -> None:
    copy = whole_copy(golden("healthy"), tmp_path / "copy")
    break_it, says = breaks()[name]
    break_it(copy / "broker-3")
    for manifest in (open_snapshot(copy).manifest, adopt(copy, cluster="prod").manifest):
        assert [b.broker_id for b in manifest.brokers] == [1, 2, 3]
    facts = derived(copy)
    (breach,) = judged(judge, facts)
    assert (breach.code, breach.subject, breach.points_to) == ("B22", {"broker_id": 3}, "restored_files")
    assert says in breach.explanation
    assert {r["broker_id"] for r in facts.rows["replicas"]} == {1, 2, 3}
    assert verify(open_snapshot(copy, settle=False)) == ()


@pytest.mark.slow
def test_the_only_copy_of_records_is_told_of_though_its_brokers_file_is_wrong(golden: Golden, tmp_path: Path) -> None:
    copy = whole_copy(golden("unclean-before"), tmp_path / "copy")
    say(copy / "broker-1", cluster_id=OTHER)
    facts = derived(copy)
    sound = derived_once(golden("unclean-before"))
    assert [r["records"] for r in facts.rows["losses"]] == [r["records"] for r in sound.rows["losses"]]


def named_alike(facts: Derived, relation: str) -> list[Row]:
    """Rows without the snapshot's id, which tells what was listed."""
    return [{**row, "snapshot_id": ""} for row in facts.rows.get(relation, [])]


def foreign_disk(golden: Golden, copy: Path) -> None:
    shutil.rmtree(copy / "broker-3")
    shutil.copytree(golden("epochs") / "broker-3", copy / "broker-3", copy_function=shutil.copy)


def clone(golden: Golden, copy: Path) -> None:
    shutil.rmtree(copy / "broker-3")
    shutil.copytree(copy / "broker-2", copy / "broker-3", copy_function=shutil.copy)


@pytest.mark.parametrize("put", one_in(2, [foreign_disk, clone], ["foreign_disk", "clone"]))
def test_a_disk_that_is_somebody_elses_is_no_evidence_and_is_named(
    put: Callable[[Golden, Path], None], golden: Golden, judge: Judge, tmp_path: Path
) -> None:
    copy = whole_copy(golden("healthy"), tmp_path / "copy")
    put(golden, copy)
    facts = derived(copy)
    (breach,) = judged(judge, facts)
    assert (breach.code, breach.subject, breach.points_to) == ("B22", {"broker_id": 3}, "foreign_disk")
    assert "broker-3/meta.properties: its log dir is not taken for node 3's" in breach.explanation
    assert facts.one("brokers", broker_id=3)["captured"] is False
    assert {r["broker_id"] for r in facts.rows["replicas"]} == {1, 2}
    assert {x.path for x in facts.manifest.left_out} == {"broker-3/meta.properties"}
    shutil.rmtree(copy / "broker-3")
    without = derived(copy)
    for relation in ("divergences", "partitions", "losses"):
        assert named_alike(facts, relation) == named_alike(without, relation)


@pytest.mark.slow
def test_two_nodes_of_two_ids_are_one_cluster_where_the_metadata_log_knows_both(
    golden: Golden, judge: Judge, tmp_path: Path
) -> None:
    copy = whole_copy(golden("healthy"), tmp_path / "copy")
    shutil.rmtree(copy / "broker-1")
    say(copy / "broker-3", cluster_id=OTHER)
    facts = derived(copy)
    assert judged(judge, facts) == ()
    assert facts.manifest.cluster_id is None
    results, _ = judge.verdicts(facts, {"B"})
    assert results["B22"].reasons["cluster id not settled"] == 2
    assert {r["broker_id"] for r in facts.rows["replicas"]} == {2, 3}


# ---------------------------------------------------------------------------------------------------- a failed disk


def test_after_a_disk_failed_its_replicas_are_told_of_as_information_and_as_gone_with_it(
    golden: Golden, judge: Judge
) -> None:
    for name in ("disk-failed", "disk-failed-stopped"):
        facts = derived_once(golden(name))
        _, breaches = judge.verdicts(facts, {"D"})
        (breach,) = diagnose([b for b in breaches if b.code == "D17"], {})
        assert (breach.severity, breach.points_to) == ("info", "failed_disk")
        (gone,) = facts.context.nodes.absent.log_dirs
        assert (gone.broker_id, gone.registered) == (2, False)
        assert [f"{t}-{p}" for t, p in gone.replicas] == facts.one("brokers", broker_id=2)["offline_replicas"]
        assert facts.one("brokers", broker_id=2)["missing_replicas"] == []
        unread = facts.unread()
        assert unread[f"broker-2/{gone.directory_id}"].startswith("a log dir that the broker has no longer registered")
        assert "which failed or was taken out" in unread["broker-2/lone-1"]


def test_a_failed_disk_that_was_captured_all_the_same_is_no_foreign_one(
    golden: Golden, judge: Judge, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(golden("disk-failed"), copy)
    (gone,) = derived_once(golden("disk-failed")).context.nodes.absent.log_dirs
    (peer,) = copy.glob("broker-1/d*/orders-1")
    shutil.copytree(peer, copy / "broker-2/d2/orders-1")
    shutil.copy(copy / "broker-2/d1/meta.properties", copy / "broker-2/d2/meta.properties")
    say(copy / "broker-2/d2", directory_id=gone.directory_id)
    facts = derived(copy)
    assert facts.one("brokers", broker_id=2)["unregistered_directory_ids"] == []
    assert facts.context.nodes.absent.log_dirs == ()
    assert not [b for b in judged(judge, facts) if b.code == "B22"]


@pytest.mark.slow
def test_a_disk_that_somebody_forgot_is_named_with_its_replicas(golden: Golden, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(golden("disk-failed"), copy)
    held = {p.name for p in (copy / "broker-1/d2").iterdir() if p.is_dir()}
    shutil.rmtree(copy / "broker-1/d2")
    (forgotten,) = [d for d in derived(copy).context.nodes.absent.log_dirs if d.broker_id == 1]
    assert forgotten.registered
    assert {f"{t}-{p}" for t, p in forgotten.replicas} == held
    # A log dir whose meta.properties is gone may be the one that is missing.
    shutil.copytree(golden("disk-failed") / "broker-1/d2", copy / "broker-1/d2")
    (copy / "broker-1/d2/meta.properties").unlink()
    assert [d for d in derived(copy).context.nodes.absent.log_dirs if d.broker_id == 1] == []


def test_a_quiesced_copy_says_so_of_controllers_too(golden: Golden, tmp_path: Path) -> None:
    shutil.copytree(golden("disk-failed-stopped"), tmp_path / "copy")
    adopt(tmp_path / "copy", cluster="prod", consistency=Consistency.QUIESCED)
    assert derived(tmp_path / "copy").context.nodes.metadata_one_moment


@pytest.mark.slow
def test_logs_of_which_confluents_tier_has_the_head_are_named_and_raise_no_alarm(
    golden: Golden, judge: Judge, tmp_path: Path
) -> None:
    """Its brokers keep the newest segments on disk, and note beside them what they have uploaded."""
    copy = whole_copy(golden("healthy"), tmp_path / "copy")
    for replica in copy.glob("broker-*/live-0"):
        for file in replica.glob(f"{0:020d}.*"):
            file.unlink()
        (replica / f"{0:020d}.tierstate").write_bytes(b"\0" * 64)
        (replica / f"{0:020d}.tierstate.mutable").write_bytes(b"\0" * 64)
    facts = derived(copy)
    assert judged(judge, facts) == ()
    assert {p for p, r in facts.unread().items() if "Confluent's tiered storage" in r} == {
        "broker-1",
        "broker-2",
        "broker-3",
    }
    results, _ = judge.verdicts(facts, {"H"})
    assert results["H03"].reasons.get("remote metadata not captured") == 3
    assert results["H06"].reasons.get("remote metadata not captured") == 3
