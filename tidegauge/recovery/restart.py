"""What a broker that starts now would cut off its logs, and whether somebody may miss it.

In: the log dirs of brokers that are about to start, and of others beside them (of a broker that runs, a copy). Out:
`RestartCheck`: every cut with its records, what is proven to have been committed of them, who else holds them; and the
partitions of which nothing at hand tells. The rule that must hold: a partition is harmless only where the log that its
broker would follow was at hand. What the broker's own disk remembers of leaders is from before it stopped, and proves
nothing of what was elected since.

A broker cuts twice: while it loads a log that was not closed cleanly, at the first batch that is damaged (LogLoader),
and when it begins to follow, where the leader's epochs say that its log parts from the leader's (KIP-101, 279, 320).
"""

import fcntl
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from tidegauge.derivation.in_process import derive_here
from tidegauge.kafka_log.internal_topics import CLUSTER_METADATA
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.recovery.log_ends import Begins, write_log_ends
from tidegauge.relations import DivergenceRow, LossRow, PartitionRow, ReplicaRow
from tidegauge.runs.run import AuditedSnapshot
from tidegauge.snapshots.adopt import survey
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import local
from tidegauge.snapshots.manifest import Consistency
from tidegauge.snapshots.settled import settled
from tidegauge.snapshots.sources import BrokerSource, broker_of, broker_sources


class _Followed(NamedTuple):
    broker_id: int
    topic: str
    partition: int


_LOCK: Final = ".lock"
_RELATIONS: Final = ("replicas", "partitions", "divergences", "losses")


class CutState(StrEnum):
    """What is known of the records of a cut, the worst first."""

    COMMITTED = "committed"
    POSSIBLE = "possible"
    HARMLESS = "harmless"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Offsets `[start_offset, end_offset)` that a broker would remove from its disk. `by`: "recovery" of a log that was
    not closed cleanly, or "leader", whom it would follow. `committed`: how many records are proven to have been.
    """

    broker_id: int
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int
    committed: int
    state: CutState
    by: str
    leader_id: int | None
    held_by: tuple[int, ...]
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """A replica of which nothing at hand tells whether starting its broker cuts it."""

    broker_id: int
    topic: str
    partition: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartCheck:
    """What starting `brokers` would do to their `replicas`."""

    brokers: tuple[int, ...]
    replicas: int
    cuts: tuple[Cut, ...]
    undecided: tuple[Undecided, ...]

    @property
    def safe(self) -> bool:
        """Nothing that was committed, or may have been, would go."""
        return not self.undecided and all(cut.state is CutState.HARMLESS for cut in self.cuts)


def restart_check(
    starting: Sequence[str],
    beside: Sequence[str],
    *,
    consistency: Consistency = Consistency.FUZZY,
    warn: Callable[[str], None],
) -> RestartCheck:
    """Checks brokers, each given as `ID=LOG_DIR[,LOG_DIR]`. Raises `SnapshotError`."""
    sources, _ = broker_sources([*starting, *beside], part=True, warn=warn)
    brokers = frozenset(broker_of(text)[0] for text in starting)
    for source in sources:
        if source.broker_id in brokers:
            _must_be_stopped(source)
    with tempfile.TemporaryDirectory(prefix="tidegauge-restart-") as directory:
        facts, begins, unread = _facts(sources, Path(directory) / "ends", consistency)
        if deeper := parting_below(facts.divergences, begins):
            facts, _, unread = _facts(sources, Path(directory) / "deeper", consistency, whole=deeper)
    return judged(facts, brokers, unread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The rows of a snapshot that a start is judged by."""

    replicas: Sequence[ReplicaRow]
    partitions: Sequence[PartitionRow]
    divergences: Sequence[DivergenceRow]
    losses: Sequence[LossRow]


def _facts(
    sources: Sequence[BrokerSource], out: Path, consistency: Consistency, *, whole: Collection[TopicPartition] = ()
) -> tuple[Facts, Begins, Collection[str]]:
    """The facts, where each log in them begins, and the paths of which something could not be read."""
    out.mkdir(mode=0o700)
    ends = write_log_ends(sources, out, whole=whole)
    manifest = survey(out, consistency=consistency)
    derived = derive_here(AuditedSnapshot(root=local(out), manifest=settled(out, manifest), target=out / "run"))
    rows = {name: derived.tables[name].to_pylist() if name in derived.tables else [] for name in _RELATIONS}
    unread = [x.path for x in (*ends.left_out, *derived.context.unread)]
    unread += [path for path, row in derived.index.items() if row["error"]]
    return Facts(**rows), ends.begins, unread


def parting_below(divergences: Iterable[DivergenceRow], begins: Begins) -> Collection[TopicPartition]:
    """The partitions whose copies part at the beginning of what was read of them, or below.

    Their checkpoints of epochs said otherwise, or an index led nowhere.
    """
    found = set()
    for row in divergences:
        key = TopicPartition(row["topic"], row["partition"])
        begin = max(begins.get((broker, key), 0) for broker in (row["leader_id"], row["follower_id"]))
        if row["divergence_offset"] < row["follower_log_end_offset"] and 0 < begin >= row["divergence_offset"]:
            found.add(key)
    return found


def judged(facts: Facts, brokers: frozenset[int], unread: Collection[str]) -> RestartCheck:
    """What the facts say of the start of `brokers`. `unread`: files of which nothing is known."""
    # The metadata log is cut by a quorum's vote, which no single disk knows.
    live = [row for row in facts.replicas if not row["is_future"] and row["topic"] != CLUSTER_METADATA]
    replicas = [row for row in live if row["broker_id"] in brokers]
    partitions = {TopicPartition(row["topic"], row["partition"]): row for row in facts.partitions}
    followed = {
        _Followed(row["follower_id"], row["topic"], row["partition"]): row
        for row in facts.divergences
        if row["follower_id"] in brokers and row["topic"] != CLUSTER_METADATA
    }
    cuts = [cut for broker in sorted(brokers) for cut in _lost(broker, facts.losses, followed)]
    cuts += [cut for row in followed.values() for cut in _harmless(row, tuple(cuts))]
    cuts += [cut for row in replicas for cut in _recovered(row, live)]
    undecided = [
        Undecided(broker_id=row["broker_id"], topic=row["topic"], partition=row["partition"], reason=reason)
        for row in replicas
        if (reason := _unknown(row, partitions.get(TopicPartition(row["topic"], row["partition"])), unread)) is not None
    ]
    return RestartCheck(
        brokers=tuple(sorted(brokers)),
        replicas=len(replicas),
        cuts=tuple(sorted(cuts, key=lambda c: (list(CutState).index(c.state), c.topic, c.partition, c.broker_id))),
        undecided=tuple(sorted(undecided, key=lambda u: (u.topic, u.partition, u.broker_id))),
    )


def _lost(broker: int, losses: Iterable[LossRow], leaders: Mapping[_Followed, DivergenceRow]) -> Iterator[Cut]:
    """What a broker would cut off, and what is or may be lost with it."""
    for loss in losses:
        if broker in loss["held_by"] and loss["state"] in ("at_risk", "possible"):
            followed = leaders.get(_Followed(broker, loss["topic"], loss["partition"]))
            yield Cut(
                broker_id=broker,
                topic=loss["topic"],
                partition=loss["partition"],
                start_offset=loss["start_offset"],
                end_offset=loss["end_offset"],
                records=loss["records"],
                committed=loss["declared_committed"],
                state=CutState.COMMITTED if loss["declared_committed"] else CutState.POSSIBLE,
                by="leader",
                leader_id=followed["leader_id"] if followed is not None else None,
                held_by=tuple(loss["held_by"]),
                cause=loss["cause"],
            )


def _harmless(row: DivergenceRow, lost: Iterable[Cut]) -> Iterator[Cut]:
    """The rest of what a broker would cut off to follow a leader."""
    here = _Followed(row["follower_id"], row["topic"], row["partition"])
    counted = sum(cut.records for cut in lost if here == _Followed(cut.broker_id, cut.topic, cut.partition))
    if row["records_at_stake"] > counted:
        yield Cut(
            broker_id=row["follower_id"],
            topic=row["topic"],
            partition=row["partition"],
            start_offset=row["divergence_offset"],
            end_offset=row["follower_log_end_offset"],
            records=row["records_at_stake"] - counted,
            committed=0,
            state=CutState.HARMLESS,
            by="leader",
            leader_id=row["leader_id"],
            held_by=(row["follower_id"],),
            cause="never committed: leadership passed on cleanly, to a broker that did not have them",
        )


def _recovered(row: ReplicaRow, live: Iterable[ReplicaRow]) -> Iterator[Cut]:
    """What a broker cuts off while it loads a log that was not closed cleanly."""
    end, readable = row["log_end_offset"], row["readable_end_offset"]
    if end is None or readable is None or readable <= end:
        return
    others = [
        other["broker_id"]
        for other in live
        if (other["topic"], other["partition"]) == (row["topic"], row["partition"])
        and other["broker_id"] != row["broker_id"]
        and (other["log_end_offset"] or 0) >= readable
        and other["last_leader_epoch"] == row["last_leader_epoch"]
    ]
    committed = max(0, min(readable, row["high_watermark"] or 0) - end)
    state = CutState.COMMITTED if committed else CutState.POSSIBLE
    yield Cut(
        broker_id=row["broker_id"],
        topic=row["topic"],
        partition=row["partition"],
        start_offset=end,
        end_offset=readable,
        records=readable - end,
        committed=committed,
        state=CutState.HARMLESS if others else state,
        by="recovery",
        leader_id=None,
        held_by=(row["broker_id"], *others),
        cause=f"a damaged batch at offset {end}, behind which recovery after an unclean stop keeps nothing",
    )


def _unknown(row: ReplicaRow, partition: PartitionRow | None, unread: Collection[str]) -> str | None:
    """Why nothing at hand tells what becomes of a replica; None where something does."""
    directory = f"/{row['topic']}-{row['partition']}/"
    if any(path.startswith(f"broker-{row['broker_id']}/") and directory in path for path in unread):
        return "its log cannot be read as a whole"
    if partition is None or partition["replicas"] is None:
        return "no metadata log at hand tells which brokers have a copy of it"
    others = set(partition["replicas"]) - {row["broker_id"]}
    missing = others - set(partition["captured_replicas"])
    leader = partition["leader_id"]
    if not missing or (leader is not None and leader in others - missing):
        return None
    named = ", ".join(map(str, sorted(missing)))
    return f"the log of broker {named} is not at hand, and one of them may lead it by now"


def _must_be_stopped(source: BrokerSource) -> None:
    """A running broker holds the lock of each of its log dirs (LogManager#lockLogDirs)."""
    for log_dir in source.log_dirs:
        with suppress(FileNotFoundError, PermissionError):
            lock = os.open(log_dir.path / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.lockf(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SnapshotError(
                    f"Broker {source.broker_id} runs: it holds {log_dir.path / _LOCK}. Ask before it starts; for a "
                    f"broker that stays up, name it by --beside {source.broker_id}=COPY."
                ) from None
            finally:
                os.close(lock)
