"""A later state of a capture, as Kafka would have left it: an old leader that came back and followed the new one.

In: a capture, and a directory for its later state. Out: files on disk. The truncation is Kafka's own: the log is cut at
a batch, segments, producer snapshots and epochs behind the cut go, and the leader's batches are appended.
"""

import operator
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.derivation.damage import batches, copy_of, edit, place, segments

UNCLEAN_PARTITIONS = ("__cluster_metadata-0", "orders-0", "payments-0", "payments-1", "safe-0")
CUTS = {"orders-0": 800, "payments-0": 463, "payments-1": 463}
"""Where the leader epochs of broker 1 and of its successors part."""


def later_copy(capture: Path, directory: Path, *partitions: str) -> Path:
    """A copy that a test may change, of the name of the directory."""
    return copy_of(capture, directory, *partitions)


def old_leader_rejoined(capture: Path, directory: Path) -> Path:
    """The unclean election's cluster after broker 1 came back: it holds what broker 2 holds."""
    copy_of(capture, directory, *UNCLEAN_PARTITIONS)
    for partition, offset in CUTS.items():
        truncate(directory / "broker-1" / partition, offset)
        follow(directory / "broker-2" / partition, directory / "broker-1" / partition, offset)
    return directory


def truncate(replica: Path, offset: int) -> None:
    """Cuts a replica's log at an offset, which is where a batch begins."""
    for log in segments(replica):
        if int(log.stem) > offset:
            _remove(replica, log.stem)
            continue
        behind = [b for b in batches(log) if int(b["base_offset"]) >= offset]
        if behind:
            end, _ = place(behind[0])
            edit(log, operator.itemgetter(slice(end)))
    for file in replica.glob("*.snapshot"):
        if int(file.stem) > offset:
            file.unlink()
    end = segments(replica)[-1]
    last = batches(end)
    set_high_watermark(replica, int(last[-1]["last_offset"]) + 1 if len(last) else int(end.stem))


def follow(leader: Path, replica: Path, offset: int) -> None:
    """Appends what the leader holds from an offset on, and takes over its epochs."""
    data = b"".join(
        log.read_bytes()[place(row)[0] : place(row)[1]]
        for log in segments(leader)
        for row in batches(log)
        if int(row["base_offset"]) >= offset
    )
    active = segments(replica)[-1]
    edit(active, lambda own: bytes(own) + data)
    shutil.copy(leader / "leader-epoch-checkpoint", replica)
    set_high_watermark(replica, int(batches(active)[-1]["last_offset"]) + 1)


def empty(replica: Path) -> None:
    """A replica whose directory was made anew: one empty segment at 0."""
    for log in segments(replica):
        _remove(replica, log.stem)
    for file in replica.glob("*.snapshot"):
        file.unlink()
    (replica / "00000000000000000000.log").write_bytes(b"")
    (replica / "leader-epoch-checkpoint").write_text("0\n0\n")
    set_high_watermark(replica, 0)


def set_high_watermark(replica: Path, offset: int) -> None:
    """Writes what the broker's checkpoint says of a replica."""
    topic, partition = replica.name.rsplit("-", 1)
    path = replica.parent / "replication-offset-checkpoint"
    line = rf"(?m)^{re.escape(topic)} {partition} \d+$"
    path.write_text(re.sub(line, f"{topic} {partition} {offset}", path.read_text()))


def remove_replicas(replicas: Iterable[Path]) -> None:
    """Takes whole replicas away."""
    for replica in replicas:
        shutil.rmtree(replica)


def _remove(replica: Path, base: str) -> None:
    for file in replica.glob(f"{base}.*"):
        if file.suffix != ".snapshot":
            file.unlink()
