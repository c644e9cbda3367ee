"""Breaks between logs in a copy of the small cluster, and the invariant that alone tells of each as a root.

Families D, F and J. Checksums and the other replicas are made to agree, as in `lone_log_breaks`.
"""

import operator
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.derivation.coordinator_breaks import each, flipped_marker, header, records
from tests.derivation.damage import batches, edit, place, sealed, segments
from tests.derivation.lone_log_breaks import everywhere, in_header, log, row
from tests.derivation.pipeline import derived
from tests.derivation.rejoined import set_high_watermark
from tests.derivation.small_cluster import BROKERS, Break
from tests.derivation.storage_breaks import checkpointed
from tidegauge.kafka_log import batch as layout
from tidegauge.kafka_log.producer_snapshot import write_producer_snapshot


def cut(d: Path, broker: str, partition: str, offset: int) -> None:
    """A replica's log up to the batch that begins at an offset; its broker is not told."""
    path = log(d, partition, broker)
    behind = [each for each in batches(path) if int(each["base_offset"]) >= offset]
    edit(path, operator.itemgetter(slice(place(behind[0])[0])))
    for file in path.parent.glob("*.snapshot"):
        if int(file.stem) > offset:
            file.unlink()


def epochs(d: Path, broker: str, partition: str, *entries: tuple[int, int]) -> None:
    """A leader-epoch-checkpoint."""
    lines = [f"{epoch} {start}" for epoch, start in entries]
    path = d / broker / partition / "leader-epoch-checkpoint"
    path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


# ---------------------------------------------------------------------------------------------- D: between replicas


def follower_ahead_of_its_leader(d: Path) -> None:
    """It holds a batch more in its leader's own epoch."""
    path = log(d, "plain-0", "broker-1")
    last = batches(path)[-1]
    start, end = place(last)

    def longer(data: bytearray) -> bytes:
        more = bytearray(data[start:end])
        struct.pack_into(">q", more, layout.BASE_OFFSET_AT, int(last["last_offset"]) + 1)
        return bytes(data + more)

    edit(path, longer)


def stopped_leader_that_knew_less(d: Path) -> None:
    """All brokers stopped cleanly, and the leader's high watermark lies below what a follower had from it."""
    for broker in BROKERS:
        (d / broker / ".kafka_cleanshutdown").write_text("")
        for replica in (d / broker).glob("*-[0-9]"):
            rows = batches(segments(replica)[-1])
            topic, partition = replica.name.rsplit("-", 1)
            end = int(rows[-1]["last_offset"]) + 1 if len(rows) else 0
            checkpointed(d / broker, "recovery-point-offset-checkpoint", topic, int(partition), end)
    with_snapshots_at_the_ends(d)
    set_high_watermark(d / "broker-2/orders-0", 80)


def with_snapshots_at_the_ends(d: Path) -> None:
    """What a clean stop writes down of the producers of each log (UnifiedLog#close)."""
    facts = derived(d)
    for key in facts.context.replicas:
        for broker, replica in facts.replicas_of(*key).items():
            path = d / f"broker-{broker}" / "{}-{}".format(*key) / f"{replica.log_end_offset:020d}.snapshot"
            path.write_bytes(write_producer_snapshot(replica.replay.states.values()))


def in_sync_replica_without_committed_records(d: Path) -> None:
    cut(d, "broker-3", "plain-0", 50)
    set_high_watermark(d / "broker-3/plain-0", 40)


def joined_in_sync_too_early(d: Path) -> None:
    """Broker 1 came back into the ISR under epoch 1, which begins at 10, and its log ends at 8."""
    cut(d, "broker-1", "tidy-0", 8)
    for broker in BROKERS:
        set_high_watermark(d / broker / "tidy-0", 8)
    epochs(d, "broker-1", "tidy-0", (0, 0))


def epoch_that_no_controller_gave(d: Path) -> None:
    in_header(d, "idle-0", -1, (layout.LEADER_EPOCH_AT, ">i", 7))
    for broker in BROKERS:
        epochs(d, broker, "idle-0", (0, 0), (7, 9))


def more_of_an_epoch_than_its_leader(d: Path) -> None:
    """The leader of epoch 0 ended it at 10; a follower, which is not in question otherwise, has it up to 11."""
    path = log(d, "tidy-0", "broker-3")
    header(path, batches(path)[10], layout.LEADER_EPOCH_AT, ">i", 0)
    epochs(d, "broker-3", "tidy-0", (0, 0), (1, 11))


def the_same_where_a_cleaner_has_been(d: Path) -> None:
    """Bytes are compared no more, for each replica is cleaned on its own."""
    more_of_an_epoch_than_its_leader(d)
    for broker in BROKERS:
        path = log(d, "tidy-0", broker)
        data, (start, _) = path.read_bytes(), place(batches(path)[15])
        path.write_bytes(data[:start])
        path.with_name(f"{15:020d}.log").write_bytes(data[start:])
        for base in (0, 15):
            for suffix in (".index", ".timeindex"):
                path.with_name(f"{base:020d}{suffix}").write_bytes(b"")
        checkpointed(d / broker, "cleaner-offset-checkpoint", "tidy", 0, 15)


def committed_records_on_too_few_disks(d: Path) -> None:
    """A member of the ISR begins where its leader ends: as far as its log goes it agrees, and it holds nothing."""
    checkpointed(d / "broker-3", "log-start-offset-checkpoint", "idle", 0, 10)


# --------------------------------------------------------------------------------------------------- F: transactions


def marker(d: Path, nth: int = -1) -> int:
    """Which batch of orders-1 is the nth end marker."""
    return [at for at, of in enumerate(batches(log(d, "orders-1"))) if int(of["control_type"]) >= 0][nth]


def marker_of_an_older_epoch(d: Path) -> None:
    at = marker(d)
    in_header(d, "orders-1", at, (layout.PRODUCER_EPOCH_AT, ">h", int(row(d, "orders-1", at)["producer_epoch"]) - 2))


def marker_that_skips_an_epoch(d: Path) -> None:
    at = marker(d)
    in_header(d, "orders-1", at, (layout.PRODUCER_EPOCH_AT, ">h", int(row(d, "orders-1", at)["producer_epoch"]) + 1))


def marker_of_a_coordinator_that_was_replaced(d: Path) -> None:
    """The marker before is of a later coordinator."""

    def change(path: Path) -> None:
        start, end = place(batches(path)[marker(d, -2)])

        def later(data: bytearray) -> None:
            struct.pack_into(">i", data, end - 5, 9)
            sealed(data, start, end)

        edit(path, later)

    everywhere(d, "orders-1", change)


def committed_and_then_aborted(d: Path) -> None:
    def change(path: Path) -> None:
        last = batches(path)[-1]
        start, end = place(last)

        def again(data: bytearray) -> bytes:
            more = bytearray(data[start:end])
            struct.pack_into(">q", more, layout.BASE_OFFSET_AT, int(last["last_offset"]) + 1)
            return bytes(data + more)

        edit(path, again)
        flipped_marker(path, batches(path)[-1])

    everywhere(d, "orders-1", change)


# ----------------------------------------------------------------------------------------------------------- J: groups


def _commit(record: Any) -> bool:
    return bool(record.name == "OffsetCommit" and record.key["topic"] == "orders" and record.key["partition"] == 0)


def committed_beyond_the_end(d: Path) -> None:
    records(d, "__consumer_offsets", 0, each(_commit, offset=999, leader_epoch=-1))


def committed_what_was_cut_off(d: Path) -> None:
    records(d, "__consumer_offsets", 0, each(_commit, offset=90, leader_epoch=0))


LONE_CLUSTER_BREAKS: Final[Mapping[Break, str]] = MappingProxyType(
    {
        follower_ahead_of_its_leader: "D08",
        stopped_leader_that_knew_less: "D09",
        in_sync_replica_without_committed_records: "D10",
        joined_in_sync_too_early: "D12",
        epoch_that_no_controller_gave: "D14",
        more_of_an_epoch_than_its_leader: "D07",
        the_same_where_a_cleaner_has_been: "D15",
        committed_records_on_too_few_disks: "D20",
        marker_of_an_older_epoch: "F02",
        marker_that_skips_an_epoch: "F03",
        marker_of_a_coordinator_that_was_replaced: "F05",
        committed_and_then_aborted: "F06",
        committed_beyond_the_end: "J01",
        committed_what_was_cut_off: "J02",
    }
)
