"""What a broker's start would cut: the same as a whole audit of the same disks says, from the ends of the logs."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.conftest import Golden
from tests.derivation.pipeline import derived
from tidegauge.cli.main import main
from tidegauge.recovery.restart import CutState, RestartCheck, restart_check
from tidegauge.snapshots.adopt import survey

ORDERS = "orders-0"


def brokers_of(copy: Path) -> dict[int, str]:
    """Each broker of a plain copy as the command names it."""
    return {
        broker.broker_id: f"{broker.broker_id}="
        + ",".join(
            str(copy / broker.directory if log_dir.name == "." else copy / broker.directory / log_dir.name)
            for log_dir in broker.log_dirs
        )
        for broker in survey(copy).brokers
    }


def checked(copy: Path, broker: int) -> RestartCheck:
    given = brokers_of(copy)
    return restart_check([given[broker]], [text for b, text in given.items() if b != broker], warn=print)


def asked(*words: str) -> Result:
    return CliRunner().invoke(main, ["restart-check", *words])


@pytest.fixture
def copied(golden: Golden, tmp_path: Path) -> Callable[[str], Path]:
    """A capture that may be written to."""

    def copy(name: str) -> Path:
        shutil.copytree(golden(name), tmp_path / name)
        return tmp_path / name

    return copy


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "unclean-before", "deaf-unclean", "racks-unclean", "forgotten-unclean", "format-1-unclean", "format-upgraded",
        "failed-disk-unclean", "shares", "soak-01", "healthy", "epochs", "tiered",
    ],
)  # fmt: skip
def test_a_start_would_cut_what_an_audit_of_the_whole_disks_says(golden: Golden, name: str) -> None:
    copy = golden(name)
    whole = derived(copy)
    for broker in brokers_of(copy):
        found = checked(copy, broker)
        at_risk = {
            (loss["topic"], loss["partition"], loss["start_offset"], loss["end_offset"], loss["records"],
             loss["declared_committed"], loss["cause"])
            for loss in whole.rows.get("losses", []) if broker in loss["held_by"] and loss["state"] != "lost"
        }  # fmt: skip
        assert {
            (c.topic, c.partition, c.start_offset, c.end_offset, c.records, c.committed, c.cause)
            for c in found.cuts if c.state is not CutState.HARMLESS
        } == at_risk  # fmt: skip
        for row in whole.all("divergences", follower_id=broker):
            here = [c for c in found.cuts if (c.topic, c.partition, c.by) == (row["topic"], row["partition"], "leader")]
            if row["topic"] != "__cluster_metadata" and row["records_at_stake"]:
                assert sum(c.records for c in here) == row["records_at_stake"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hanging-txn", "healthy"])
def test_a_broker_of_a_sound_cluster_may_start(golden: Golden, name: str) -> None:
    for broker in brokers_of(golden(name)):
        found = checked(golden(name), broker)
        assert found.safe, (found.cuts, found.undecided)
        assert found.replicas > 5


def test_records_that_only_this_broker_holds_keep_it_down(golden: Golden) -> None:
    given = brokers_of(golden("unclean-before"))
    words = ["--broker", given[1], "--beside", given[2], "--beside", given[3]]
    said = asked(*words)
    assert said.exit_code == 1
    assert said.stdout.startswith("Keep broker 1 down: a start would cut 1,200 committed records.\n")
    assert "orders-0 [800, 1500) on broker 1: 700 records, 700 of them committed; no other disk" in said.stdout
    assert f"tidegauge capture --cluster NAME --broker {given[1]} --out ROOT" in said.stdout
    told = json.loads(asked(*words, "--json", "--quiet").stdout)
    assert (told["brokers"], told["safe"], told["undecided"]) == ([1], False, [])
    assert {(c["topic"], c["partition"], c["state"], c["committed"], c["leader_id"]) for c in told["cuts"]} == {
        ("orders", 0, "committed", 700, 2),
        ("payments", 0, "committed", 250, 2),
        ("payments", 1, "committed", 250, 3),
    }


def test_brokers_that_stay_up_are_no_reason(golden: Golden) -> None:
    given = brokers_of(golden("unclean-before"))
    said = asked("--broker", given[2], "--beside", given[1], "--beside", given[3])
    assert said.exit_code == 0
    assert said.stdout == ("Broker 2 may start: nothing that was committed would be cut off its 7 replicas.\n")


def test_a_disk_alone_proves_nothing_of_what_the_others_elected_since(golden: Golden) -> None:
    said = asked("--broker", brokers_of(golden("healthy"))[1])
    assert said.exit_code == 1
    assert said.stdout.startswith(
        "Keep broker 1 down until it is known what a start would cut: nothing at hand tells of"
    )
    assert "the log of broker 2, 3 is not at hand" in said.stdout
    assert "--beside ID=LOG_DIR" in said.stdout


def test_a_partition_with_one_replica_needs_nobody_else(golden: Golden) -> None:
    found = restart_check([brokers_of(golden("healthy"))[3]], [], warn=print)
    alone = {("single", 0)}
    assert {(u.topic, u.partition) for u in found.undecided} & alone == set()
    assert len(found.undecided) < found.replicas


def segments(copy: Path, broker: int, partition: str) -> list[Path]:
    return sorted((copy / f"broker-{broker}" / partition).glob("*.log"))


def test_what_lies_below_is_not_read(copied: Callable[[str], Path]) -> None:
    copy = copied("healthy")
    before = checked(copy, 1)
    ruined = [log for broker in (1, 2, 3) for log in segments(copy, broker, "live-0")[:-2]]
    assert len(ruined) >= 6
    for log in ruined:
        log.write_bytes(os.urandom(log.stat().st_size))
    assert checked(copy, 1) == before


@pytest.mark.parametrize("harm", ["removed", "zeros", "leads astray"])
def test_an_index_is_a_hint_and_no_evidence(copied: Callable[[str], Path], harm: str) -> None:
    copy = copied("unclean-before")
    before = checked(copy, 1)
    for index in copy.glob("broker-*/*-[0-9]*/*.index"):
        if harm == "removed":
            index.unlink()
        elif harm == "zeros":
            index.write_bytes(bytes(index.stat().st_size))
        else:
            index.write_bytes(b"".join((n * 7).to_bytes(4, "big") + (n * 1001).to_bytes(4, "big") for n in range(1, 9)))
    after = checked(copy, 1)
    assert (after.cuts, after.undecided) == (before.cuts, before.undecided)


def test_recovery_after_an_unclean_stop_cuts_at_a_damaged_batch(copied: Callable[[str], Path]) -> None:
    copy = copied("unclean-before")
    log = segments(copy, 1, ORDERS)[-1]
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    (cut,) = [c for c in checked(copy, 1).cuts if c.by == "recovery"]
    assert (cut.topic, cut.end_offset, cut.state) == ("orders", 1500, CutState.POSSIBLE)
    assert 800 < cut.start_offset < 1500


def test_a_log_that_cannot_be_read_is_not_known_to_be_harmless(copied: Callable[[str], Path]) -> None:
    copy = copied("hanging-txn")
    log = segments(copy, 1, "pay-0")[-1]
    log.unlink()
    log.symlink_to("/etc/hostname")
    found = checked(copy, 1)
    assert [(u.topic, u.reason) for u in found.undecided] == [("pay", "its log cannot be read as a whole")]
    assert not found.safe


@contextmanager
def locked(log_dir: Path) -> Iterator[None]:
    """As a broker that runs holds it; another process, since a process never meets its own lock."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with (log_dir / ".lock").open("r+") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            os.write(write, b"x")
            os.close(write)
            os.read(os.open(log_dir / "wait", os.O_RDONLY), 1)
        os._exit(0)
    os.read(read, 1)
    try:
        yield
    finally:
        os.close(os.open(log_dir / "wait", os.O_WRONLY))
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


def test_a_broker_that_runs_is_refused(copied: Callable[[str], Path]) -> None:
    copy = copied("hanging-txn")
    os.mkfifo(copy / "broker-1" / "wait")
    with locked(copy / "broker-1"):
        said = asked("--broker", brokers_of(copy)[1])
    assert said.exit_code == 2
    assert "Broker 1 runs" in said.output


def test_nothing_is_written_into_a_log_dir(copied: Callable[[str], Path]) -> None:
    copy = copied("unclean-before")

    def state() -> dict[str, Any]:
        return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(copy.rglob("*"))}

    before = state()
    checked(copy, 1)
    assert state() == before
