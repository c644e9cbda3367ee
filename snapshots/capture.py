"""Capturing: brokers' log dirs, as they are while the cluster runs, become one snapshot.

In: a `Capture`: which brokers, to where, how. Out: a snapshot's directory, or a broker's share of one. The rules that
must hold: nothing is written into a source; a snapshot that is there is never overwritten; MANIFEST.json comes last,
so that what was interrupted is no snapshot, and goes on when the same command is given again.

The order decides which alarms would be false: the metadata log first; then all checkpoints and epochs; then the
partitions, Kafka's own topics first (what a group has committed is then never ahead of the copied log), followers
before leaders; each partition's epochs again behind its logs; the metadata log again last. Several partitions are taken
at once, each by one thread and in this order, and none before all of Kafka's own are done.
"""

import errno
import functools
import itertools
import json
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from tidegauge.kafka_log.internal_topics import INTERNAL_TOPICS
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.broker_copy import BrokerCopy, PartitionDirectory
from tidegauge.snapshots.cluster_answers import ANSWERS_NAME, CapturedAnswers, ClusterAnswers
from tidegauge.snapshots.cluster_answers import to_json as answers_json
from tidegauge.snapshots.copying import Meter
from tidegauge.snapshots.errors import AuditError, SnapshotError
from tidegauge.snapshots.file_taking import Way
from tidegauge.snapshots.leaders import Leaders
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.manifest import (
    MANIFEST_NAME,
    BrokerCapture,
    Consistency,
    FileEntry,
    LeftOut,
    Manifest,
    Source,
    file_line,
    from_json,
    part_name,
    to_json,
    with_part,
)
from tidegauge.snapshots.reuse import Earlier, Journal, read_journal
from tidegauge.snapshots.shares import (
    Share,
    brokers_in,
    finished_share,
    join,
    must_be_signed,
    put_signed,
    remove_shares,
    write_share,
)
from tidegauge.snapshots.side_by_side import Piece, side_by_side
from tidegauge.snapshots.signing import Signer, signature_name
from tidegauge.snapshots.sources import BrokerSource
from tidegauge.snapshots.target import Target, target_at

JOURNAL: Final = ".capture-{}.jsonl"
READERS: Final = min(4, os.cpu_count() or 1)
"""Partitions that are taken at once: a digest takes a core as long as a good disk takes to read."""


class Ask(Protocol):
    """Asks the running cluster once."""

    def __call__(self) -> ClusterAnswers:
        """Its answers. Raises `ClusterError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """What to capture. `out` is the snapshot's own directory.

    `signer` signs the manifest, or a broker's share. What lies at `out` already may be anybody's: shares count only if
    they are signed by the same key, and what an interrupted capture left is taken anew. `expected`: nodes without whose
    shares nothing is joined. `copied`: the sources are copies, so that it tells nothing when they are read.
    """

    cluster: str
    snapshot_id: str
    out: Location
    sources: tuple[BrokerSource, ...] = ()
    cluster_id: str | None = None
    way: Way
    consistency: Consistency = Consistency.FUZZY
    earlier: Earlier | None = None
    reread: bool = False
    ask: Ask | None = None
    part: bool = False
    expected: frozenset[int] = frozenset()
    copied: bool = False
    signer: Signer | None = None
    readers: int = READERS


@dataclass(slots=True, kw_only=True)
class Captured:
    """What was captured. `manifest` is None for a broker's share."""

    manifest: Manifest | None
    brokers: tuple[BrokerCapture, ...]
    left_out: tuple[LeftOut, ...]
    linked_files: int = 0
    linked_bytes: int = 0
    bytes_read: int = 0
    rotten: list[str] = field(default_factory=list)

    @property
    def files(self) -> int:
        """How many files."""
        return sum(len(b.files) for b in self.brokers)

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(f.size_bytes for b in self.brokers for f in b.files)

    @property
    def source_bytes(self) -> int:
        """Of the files that these were made of."""
        return sum(f.log_size_bytes for b in self.brokers for f in b.files)


def default_id(now: datetime) -> str:
    """The id of a capture that was given none: its instant, to the second, UTC."""
    return now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def unfinished(directory: Location) -> list[str]:
    """Ids of captures of a cluster that were begun and not finished. `directory` is the cluster's."""
    if not isinstance(directory, Path) or not directory.is_dir():
        return []  # In an object store a look into every snapshot would cost too much.
    begun = {p.parent for p in directory.glob("*/" + JOURNAL.format("*"))}
    return sorted(p.name for p in begun if not (p / MANIFEST_NAME).exists())


def capture(wanted: Capture, meter: Meter) -> Captured:
    """Takes the snapshot, or the brokers' shares of it. Shares that are finished already are told of, not made anew."""
    target = target_at(wanted.out)
    if target.size(MANIFEST_NAME) is not None:
        raise _is_there(wanted)
    finished = _finished_shares(wanted, target)
    if finished is not None:
        return finished
    if not wanted.part:
        _must_be_all(wanted, target)
    try:
        with ExitStack() as stack:
            return _capture(wanted, meter, target, stack)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        if not wanted.part:
            target.remove(ANSWERS_NAME)
            target.remove(signature_name(MANIFEST_NAME))
        for source in wanted.sources:
            target.remove(_journal_name(source))
            target.remove(part_name(source.directory))
            target.remove_all(source.directory)
        raise AuditError(
            f"There is no room for the snapshot at {wanted.out}: {error.strerror}. What was written of it has been "
            "removed again. Make room or name another --out, then run the same command again; --previous links what an "
            "earlier snapshot there holds, and --mode headers needs a small part of the room."
        ) from error


def finish(wanted: Capture) -> Captured:
    """Joins the brokers' shares, written by others, into the manifest; if that is there already, it stays as it is."""
    target = target_at(wanted.out)
    text = target.text(MANIFEST_NAME)
    if text is not None:
        # Whoever asks again, since the answer was lost on its way, gets it again.
        must_be_signed(target, MANIFEST_NAME, text, wanted.signer)
        there = from_json(text, place=wanted.out, where=str(wanted.out / MANIFEST_NAME))
        return Captured(manifest=there, brokers=there.brokers, left_out=there.left_out)
    share = join(target, wanted.cluster, wanted.snapshot_id, expected=wanted.expected, signer=wanted.signer)
    if share.hashed_topics and wanted.ask is not None and wanted.way.names is None:
        raise SnapshotError(
            f"The shares at {wanted.out} hide the topics' names, and the cluster's answers would tell them: give "
            "--mode headers --hash-topics --hash-key FILE here too."
        )
    answers = CapturedAnswers(before=None, after=wanted.ask()) if wanted.ask is not None else None
    if answers is not None and answers.after is not None:
        _must_be_of(share.cluster_id, answers.after)
    return _finished(wanted, target, share, answers, Captured(manifest=None, brokers=(), left_out=()))


def _capture(wanted: Capture, meter: Meter, target: Target, stack: ExitStack) -> Captured:
    before = wanted.ask() if wanted.ask is not None else None
    if before is not None:
        _must_be_of(wanted.cluster_id, before)
    journals = [_begun(wanted, source, target) for source in wanted.sources]
    copies = [
        _broker_copy(wanted, source, journal, target, meter, stack)
        for source, journal in zip(wanted.sources, journals, strict=True)
    ]
    for copy in copies:
        copy.metadata()
    leaders = max((copy.leaders() for copy in copies), key=lambda found: found.reach)
    for copy in copies:
        copy.before()
    for pieces in _in_order(copies, leaders):
        side_by_side(pieces, wanted.readers, stop=meter.stop)
    for copy in copies:
        copy.rest()
    after = wanted.ask() if wanted.ask is not None else None
    for copy in copies:
        copy.metadata()
    shares = [copy.finish(rack=leaders.racks.get(copy.source.broker_id)) for copy in copies]
    if wanted.copied:
        shares = [(broker.without_instants(), left_out) for broker, left_out in shares]
    result = Captured(
        manifest=None,
        brokers=tuple(with_part(broker, target.root, target.put) for broker, _ in shares),
        left_out=tuple(x for _, left_out in shares for x in left_out),
        linked_files=sum(copy.linked[0] for copy in copies),
        linked_bytes=sum(copy.linked[1] for copy in copies),
        bytes_read=meter.bytes_read,
        rotten=[path for copy in copies for path in copy.rotten],
    )
    share = Share(
        cluster=wanted.cluster,
        cluster_id=wanted.cluster_id,
        snapshot_id=wanted.snapshot_id,
        mode=wanted.way.mode,
        hashed_topics=wanted.way.names is not None,
        consistency=wanted.consistency,
        brokers=result.brokers,
        left_out=result.left_out,
    )
    if wanted.part:
        write_share(target, share, signer=wanted.signer)
        for source in wanted.sources:
            target.remove(_journal_name(source))
        return result
    answers = CapturedAnswers(before=before, after=after) if before is not None else None
    return _finished(wanted, target, share, answers, result)


def _finished(
    wanted: Capture, target: Target, share: Share, answers: CapturedAnswers | None, result: Captured
) -> Captured:
    answered = None
    if answers is not None:
        names = wanted.way.names
        if share.hashed_topics and names is not None:
            answers = answers.renamed(topic=names.hashed, identifier=names.identifier)
        answered = answers_json(answers)
        target.put(ANSWERS_NAME, answered)
    manifest = Manifest(
        cluster=share.cluster,
        cluster_id=share.cluster_id or _answered(answers),
        snapshot_id=share.snapshot_id,
        source=Source.CAPTURED,
        mode=share.mode,
        consistency=share.consistency,
        brokers=share.brokers,
        left_out=share.left_out,
        answers=ANSWERS_NAME if answered is not None else None,
        answers_sha256=sha256(answered.encode("utf-8")).hexdigest() if answered is not None else None,
        hashed_topics=share.hashed_topics,
    )
    put_signed(target, MANIFEST_NAME, to_json(manifest, target.root), wanted.signer)
    remove_shares(target, manifest.brokers)
    for broker in manifest.brokers:
        target.remove(JOURNAL.format(broker.directory))
    result.manifest, result.brokers, result.left_out = manifest, manifest.brokers, manifest.left_out
    return result


def _in_order(copies: Iterable[BrokerCopy], leaders: Leaders) -> Iterator[list[Piece]]:
    """Partitions that may be taken at once: first all of Kafka's own topics, then all others. A partition is taken from
    broker after broker, the leader's copy last.
    """
    by_name = leaders.by_name()
    found = sorted(
        ((copy, place) for copy in copies for place in copy.partition_directories()),
        key=lambda x: (
            *_partition(x),
            by_name.get(TopicPartition(x[1].topic, x[1].partition)) == x[0].source.broker_id,
            x[0].source.broker_id,
            x[1].name,
        ),
    )
    by_partition = [list(of_partition) for _, of_partition in itertools.groupby(found, _partition)]
    for _, together in itertools.groupby(by_partition, lambda of_partition: _partition(of_partition[0])[0]):
        yield [functools.partial(_take_all, of_partition) for of_partition in together]


def _partition(of: tuple[BrokerCopy, PartitionDirectory]) -> tuple[bool, str, int]:
    """Whether it is a user's, and its name."""
    return of[1].topic not in INTERNAL_TOPICS, of[1].topic, of[1].partition


def _take_all(replicas: Iterable[tuple[BrokerCopy, PartitionDirectory]]) -> None:
    for copy, place in replicas:
        copy.take(place)


def _begun(wanted: Capture, source: BrokerSource, target: Target) -> Journal:
    """What an interrupted capture has left of a broker. Raises `SnapshotError` if it is not of this capture."""
    journal = read_journal(target.text(_journal_name(source)) or "")
    if journal.header is None and target.files(source.directory):
        raise SnapshotError(
            f"{wanted.out / source.directory} is there already, and is not what an interrupted capture left. "
            "Name another --id or --out, or remove it."
        )
    if journal.header is not None and journal.header | {"names": None} != _header(wanted, source) | {"names": None}:
        raise SnapshotError(
            f"The unfinished capture at {wanted.out} was begun for other log dirs or in another mode. Go on with the "
            f"command that began it, or remove {wanted.out} and begin anew."
        )
    return journal


def _header(wanted: Capture, source: BrokerSource) -> dict[str, object]:
    return {
        "cluster": wanted.cluster,
        "cluster_id": wanted.cluster_id,
        "mode": wanted.way.mode,
        "hashed_topics": wanted.way.names is not None,
        "names": wanted.way.names.fingerprint if wanted.way.names is not None else None,
        "log_dirs": [[d.name, d.directory_id] for d in source.log_dirs],
    }


def _broker_copy(
    wanted: Capture, source: BrokerSource, journal: Journal, target: Target, meter: Meter, stack: ExitStack
) -> BrokerCopy:
    note = stack.enter_context(target.journal(_journal_name(source)))
    header = _header(wanted, source)
    if journal.header != header or wanted.signer is not None:
        # What is hashed by a key that nobody keeps cannot go on under the next one; and a journal is not signed.
        journal = Journal()
        note(json.dumps(header))
    one_line = threading.Lock()

    def note_entry(entry: FileEntry) -> None:
        line = file_line(entry)
        with one_line:
            note(line)

    return BrokerCopy(
        source,
        target=target,
        way=wanted.way,
        meter=meter,
        earlier=wanted.earlier,
        journal=journal,
        note=note_entry,
        reread=wanted.reread,
    )


def _journal_name(source: BrokerSource) -> str:
    return JOURNAL.format(source.directory)


def _finished_shares(wanted: Capture, target: Target) -> Captured | None:
    """What is there of these brokers and finished. Raises `SnapshotError` if it is not what is wanted."""
    found = [(source, finished_share(target, source.broker_id, signer=wanted.signer)) for source in wanted.sources]
    shares = [share for _, share in found if share is not None]
    if not shares:
        return None
    for source, share in found:
        same = share is not None and [
            (share.cluster, share.cluster_id, share.mode, share.hashed_topics, share.consistency),
            [(d.name, d.directory_id) for b in share.brokers for d in b.log_dirs],
        ] == [
            (wanted.cluster, wanted.cluster_id, wanted.way.mode, wanted.way.names is not None, wanted.consistency),
            [(d.name, d.directory_id) for d in source.log_dirs],
        ]
        if not (wanted.part and same):
            raise SnapshotError(
                f"{wanted.out} holds finished shares of brokers already, and they are never overwritten. Join them: "
                f"tidegauge capture --cluster {wanted.cluster} --id {wanted.snapshot_id} --out ROOT --finish; or give "
                "this capture another --id."
            )
    return Captured(
        manifest=None,
        brokers=tuple(b for share in shares for b in share.brokers),
        left_out=tuple(x for share in shares for x in share.left_out),
    )


def _must_be_all(wanted: Capture, target: Target) -> None:
    """A manifest over some of the brokers would be a snapshot that hides the others. Raises `SnapshotError`."""
    others = brokers_in(target.names()) - {s.broker_id for s in wanted.sources}
    if others:
        raise SnapshotError(
            f"{wanted.out} holds what a capture of broker {', '.join(map(str, sorted(others)))} has begun or finished, "
            "too. Go on with the command that began it, give --part and then join by --finish, or name another --id."
        )


def _is_there(wanted: Capture) -> SnapshotError:
    return SnapshotError(
        f"{wanted.out} is a snapshot already, and none is ever overwritten. Give this one another --id, or none."
    )


def _answered(answers: CapturedAnswers | None) -> str | None:
    """The cluster's id by its own word: where the log dirs name two, as many each, it decides."""
    rounds = () if answers is None else (answers.before, answers.after)
    return next((r.cluster_id for r in rounds if r is not None and r.cluster_id), None)


def _must_be_of(cluster_id: str | None, answers: ClusterAnswers) -> None:
    if cluster_id and answers.cluster_id and cluster_id != answers.cluster_id:
        raise SnapshotError(
            f"The log dirs are of cluster {cluster_id}, but the cluster at --bootstrap is {answers.cluster_id}. "
            "Name the servers of the cluster that is captured."
        )
