"""A golden capture: a copy of every node's directories, and beside it what is known to be true of them.

In: a cluster, its ledger, what was done. Out: `<name>.tar.gz` with `broker-<id>/`, `config/`, `acks.tsv.gz` and
`GROUND_TRUTH.json`, its files sparse. Kafka wrote every byte of the directories, and nothing is written down as true
that the brokers, the clients or the one who broke something did not say.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.real_kafka.cluster import KafkaCluster
from tests.real_kafka.ledger import Ledger, ranges
from tests.real_kafka.probe import Truth, ground_truth, told_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """What only one broker had acknowledged, of one partition, when it died or its disk did.

    `offsets` are those of its records, none where all were deleted on request since; what else lies below
    `log_end_offset`, where its log ended, are ends of transactions. `groups` had read past the first of the records.
    """

    topic: str
    partition: int
    written_by: int
    leader_epoch: int
    offsets: tuple[int, ...]
    log_end_offset: int
    held_by: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The partition in a word."""
        return f"{self.topic}-{self.partition}"

    def told(self, *, held_by: Sequence[int], state: str) -> Truth:
        """As it stands in GROUND_TRUTH.json; ranges are half open."""
        offsets = set(self.offsets)
        start = min(offsets)
        return {
            "start_offset": start,
            "end_offset": self.log_end_offset,
            "ranges": ranges(offsets),
            "count": len(offsets),
            "control_offsets": sorted(set(range(start, self.log_end_offset)) - offsets),
            "written_by": self.written_by,
            "leader_epoch": self.leader_epoch,
            "held_by": list(held_by),
            "state": state,
            "groups": list(self.groups),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Archives:
    """Where the captures of one cluster's life go."""

    target: Path
    cluster: KafkaCluster
    ledger: Ledger
    names: list[str] = field(default_factory=list)

    def keep(
        self,
        name: str,
        *,
        what: str,
        state: str,
        lost: Sequence[Lost] = (),
        let_go: Sequence[int] = (),
        truth: Truth | None = None,
        stand_still: bool = False,
        beside: Sequence[Path] = (),
        notes: Truth | None = None,
    ) -> None:
        """Copies the cluster as it is now. `let_go`: brokers that have truncated what they lost, or whose disk is gone.

        `truth` is what the brokers had answered where they no longer run. With `stand_still` no node runs on while
        files are copied. Directories `beside` the nodes' are kept in `elsewhere/`.
        """
        answered = ground_truth(self.cluster) if truth is None else truth
        with tempfile.TemporaryDirectory(prefix="tidegauge-golden-") as directory:
            root = Path(directory)
            running = [i for i in self.cluster.node_ids if self.cluster.is_running(i)] if stand_still else []
            for node_id in running:
                self.cluster.pause(node_id)
            try:
                self._copy(root, beside)
            finally:
                for node_id in running:
                    self.cluster.resume(node_id)
            self.ledger.save(root / "acks.tsv.gz")
            gone: dict[str, list[Truth]] = {}
            for loss in (loss for loss in lost if loss.offsets):
                told = (
                    loss.told(held_by=[], state="lost")
                    if loss.written_by in let_go
                    else loss.told(held_by=loss.held_by or [loss.written_by], state="at_risk")
                )
                gone.setdefault(loss.place, []).append(told)
            whole = {
                "capture": name,
                "kafka": self.cluster.release,
                "what": what,
                "state": state,
                "expect": "no finding" if not lost else "exactly the losses below",
                "topology": _topology(self.cluster),
                "directory_ids": {str(i): directory_id(self.cluster.log_dirs(i)[0]) for i in self.cluster.node_ids},
                **answered,
                "acked_then_lost": gone,
                "cut_off_without_loss": {
                    loss.place: {"written_by": loss.written_by, "end_offset": loss.log_end_offset}
                    for loss in lost
                    if not loss.offsets
                },
                "acked_by_partition": {
                    f"{topic}-{partition}": {"count": len(found), "ranges": ranges(r.offset for r in found)}
                    for (topic, partition), found in sorted(self.ledger.by_partition().items())
                },
                "transactions": self.ledger.outcomes(),
                **(notes or {}),
            }
            (root / "GROUND_TRUTH.json").write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")
            _pack(root, self.target / f"{name}.tar.gz")
        self.names.append(name)

    def _copy(self, root: Path, beside: Sequence[Path]) -> None:
        (root / "config").mkdir()
        for node_id in self.cluster.node_ids:
            source = self.cluster.root(node_id)
            subprocess.run(["cp", "-a", "--sparse=always", str(source), str(root / source.name)], check=True)
            text = self.cluster.config(node_id).read_text().replace(str(source), f"/var/lib/kafka/{source.name}")
            (root / "config" / f"server-{node_id}.properties").write_text(text)
            for directory in self.cluster.directories(node_id):
                copy = root / source.name / directory.relative_to(source)
                if not copy.is_dir():
                    copy.unlink()  # What took a failed disk's place.
        for directory in beside:
            (root / "elsewhere").mkdir(exist_ok=True)
            subprocess.run(["cp", "-a", "--sparse=always", str(directory), str(root / "elsewhere")], check=True)


def _pack(root: Path, archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(f".{archive.name}.partial")
    subprocess.run(
        ["tar", "--sparse", "--use-compress-program=gzip -9n", "--owner=0", "--group=0", "--sort=name", "-cf",
         str(partial), "-C", str(root), "."],
        check=True,
    )  # fmt: skip
    shutil.move(partial, archive)


def _topology(cluster: KafkaCluster) -> Truth:
    return {
        str(i): {
            "roles": list(plan.roles),
            "rack": plan.rack,
            "log_dirs": [told_path(cluster, i, path) for path in cluster.log_dirs(i)],
            "metadata_log_dir": None
            if plan.metadata_log_dir is None
            else told_path(cluster, i, cluster.root(i) / plan.metadata_log_dir),
            "directory_ids": {
                told_path(cluster, i, path): directory_id(path) for path in cluster.directories(i) if path.is_dir()
            },
            "running": cluster.is_running(i),
        }
        for i in cluster.node_ids
        for plan in [cluster.plan(i)]
    }


def directory_id(directory: Path) -> str | None:
    """What a log dir is called (meta.properties); with a ZooKeeper it may have no name."""
    lines = (directory / "meta.properties").read_text().splitlines()
    return next((line.removeprefix("directory.id=") for line in lines if line.startswith("directory.id=")), None)
