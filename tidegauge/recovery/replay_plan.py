"""Which salvaged records are produced again, and why each other one is not.

In: the salvaged records as `comparison.Wanted`, what the partition has of them, its topic's settings, what the user
asks for. Out: a reason for each record that is left out, warnings, or the error that nothing may be produced there at
all. Pure: it asks nobody and reads no clock.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tidegauge.kafka_log.internal_topics import INTERNAL_TOPICS
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.recovery.comparison import Compared
from tidegauge.recovery.salvage import Origin
from tidegauge.snapshots.errors import SnapshotError

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FOR_EVER: Final = -1
_LARGEST: Final = (1 << 63) - 1
_DEFAULT_MOST_BYTES: Final = 1_048_588
"""max.message.bytes where nobody says otherwise: assumed where the client may not ask."""


class LeftOut(StrEnum):
    """Why a record is not produced; the words are part of `--json`."""

    PRODUCED_BEFORE = "produced_before"
    """An earlier replay of this directory produced it."""
    ABORTED = "aborted"
    """Its transaction was aborted: it was taken back."""
    OPEN_TRANSACTION = "open_transaction"
    """Its transaction had not ended on the salvaged copy."""
    SURVIVED = "survived"
    """A surviving copy had it when it was salvaged."""
    PRESENT = "present"
    """The partition has it, under whatever offset."""
    PRESENT_OPEN = "present_in_open_transaction"
    """The partition has it, in a transaction that has not ended: run again when it has."""
    NEWER_VALUE = "newer_value"
    """The topic is compacted, and its key has got another value since, which this one would replace."""
    TOO_LARGE = "too_large"
    """It is larger than max.message.bytes."""
    NO_KEY = "no_key"
    """The topic is compacted, and brokers take no record without a key there."""
    TIMESTAMP = "timestamp_refused"
    """Its timestamp is too old or too new for message.timestamp.before.max.ms or after.max.ms."""


UNFIT: Final = (LeftOut.TOO_LARGE, LeftOut.NO_KEY, LeftOut.TIMESTAMP)
"""What a broker would refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user wants otherwise than by default."""

    with_aborted: bool = False
    with_open: bool = False
    same_content: bool = False
    newer_values: bool = False
    leave_out_unfit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What decides whether a record may be produced. `packed_bytes`: of a batch with it alone, at its smallest."""

    offset: int
    timestamp: int
    outcome: str | None
    survived: str | None
    has_key: bool
    packed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the topic takes, by its settings."""

    compacted: bool = False
    most_bytes: int = _DEFAULT_MOST_BYTES
    append_time: bool = False
    """Brokers give each record the time of its arrival (LogAppendTime)."""
    oldest_ms: int = -_LARGEST
    newest_ms: int = _LARGEST
    retained_since_ms: int | None = None
    """Records older than this are deleted soon after they were produced."""


def limits_of(settings: Mapping[str, str], *, now_ms: int) -> Limits:
    """The limits at this moment. A setting that is not there has Kafka's default."""

    def number(name: str, default: int) -> int:
        return int(settings.get(name, default))

    append_time = settings.get("message.timestamp.type") == "LogAppendTime"
    policies = settings.get("cleanup.policy", "delete").replace(" ", "").split(",")
    retention = number("retention.ms", _FOR_EVER)
    return Limits(
        compacted="compact" in policies,
        most_bytes=number("max.message.bytes", _DEFAULT_MOST_BYTES),
        append_time=append_time,
        oldest_ms=-_LARGEST if append_time else now_ms - number("message.timestamp.before.max.ms", _LARGEST),
        newest_ms=_LARGEST if append_time else now_ms + number("message.timestamp.after.max.ms", 3_600_000),
        retained_since_ms=now_ms - retention if "delete" in policies and retention >= 0 and not append_time else None,
    )


def check_target(
    origin: Origin, *, cluster_id: str | None, topic_id: str | None, place: TopicPartition, elsewhere: bool
) -> None:
    """Raises `SnapshotError` where records of this origin must not go to that partition."""
    if _TOPIC_NAME.fullmatch(place.topic) is None or set(place.topic) <= {"."}:
        raise SnapshotError(f"{place.topic!r} is no name that a topic can have. Name the topic with --topic.")
    if place.topic in INTERNAL_TOPICS or origin.topic in INTERNAL_TOPICS:
        raise SnapshotError(
            f"{origin.topic if origin.topic in INTERNAL_TOPICS else place.topic} is Kafka's own: brokers act on its "
            "records, and old ones would undo newer ones. They are not produced again."
        )
    if elsewhere:
        return
    how = "If that is what you want, say so with --elsewhere."
    if origin.cluster_id != cluster_id or cluster_id is None:
        theirs = "of a cluster whose id the snapshot does not tell" if origin.cluster_id is None else origin.cluster_id
        raise SnapshotError(
            f"The records are {theirs if origin.cluster_id is None else f'of cluster {theirs}'}, and this one is "
            f"{cluster_id}. Nothing was produced. {how}"
        )
    if place.topic == origin.topic and None not in (origin.topic_id, topic_id) and origin.topic_id != topic_id:
        raise SnapshotError(
            f"The records are of a topic {origin.topic} with id {origin.topic_id}, and the cluster's {place.topic} has "
            f"{topic_id}: it was deleted and made again since. Nothing was produced. {how}"
        )


def reasons(
    candidates: Sequence[Candidate],
    compared: Compared,
    *,
    produced_before: Collection[int],
    limits: Limits,
    asked: Asked,
) -> dict[int, LeftOut]:
    """Offset -> why it is left out. What is not in it is to be produced."""
    found: dict[int, LeftOut] = {}
    for one in candidates:
        for why in _reasons_of(one, compared, produced_before, limits, asked):
            found[one.offset] = why
            break
    return found


def _reasons_of(
    one: Candidate, compared: Compared, produced_before: Collection[int], limits: Limits, asked: Asked
) -> Iterator[LeftOut]:
    """The first one counts."""
    present = compared.present.get(one.offset)
    if one.offset in produced_before:
        yield LeftOut.PRODUCED_BEFORE
    if one.outcome == "aborted" and not asked.with_aborted:
        yield LeftOut.ABORTED
    if one.outcome == "open" and not asked.with_open:
        yield LeftOut.OPEN_TRANSACTION
    if one.survived is not None and not (one.survived == "content" and asked.same_content):
        yield LeftOut.SURVIVED
    if present is not None and not (present.way == "content" and asked.same_content):
        yield LeftOut.PRESENT_OPEN if present.open_transaction else LeftOut.PRESENT
    if limits.compacted and one.offset in compared.newer_values and not asked.newer_values:
        yield LeftOut.NEWER_VALUE
    if one.packed_bytes > limits.most_bytes:
        yield LeftOut.TOO_LARGE
    if limits.compacted and not one.has_key:
        yield LeftOut.NO_KEY
    if one.timestamp >= 0 and not limits.oldest_ms <= one.timestamp <= limits.newest_ms:
        yield LeftOut.TIMESTAMP


def check_fit(left_out: Mapping[int, LeftOut], place: TopicPartition, limits: Limits, asked: Asked) -> None:
    """Raises `SnapshotError` where brokers would refuse records, and the user has not said to go without these."""
    counts: Counter[LeftOut] = Counter(why for why in left_out.values() if why in UNFIT)
    if counts and not asked.leave_out_unfit:
        raise SnapshotError(f"{' '.join(unfit_words(counts, place, limits))} Nothing was produced. {GO_WITHOUT}")


GO_WITHOUT: Final = "To produce the others and go without these, add --leave-out-unfit."


def unfit_words(counts: Mapping[LeftOut, int], place: TopicPartition, limits: Limits) -> Iterator[str]:
    """Which records brokers would refuse, and what lets them in."""
    if n := counts.get(LeftOut.TOO_LARGE):
        yield (
            f"{n:,} records are larger than the {limits.most_bytes:,} bytes that {place.topic} takes: raise its "
            "max.message.bytes."
        )
    if n := counts.get(LeftOut.NO_KEY):
        yield f"{n:,} records have no key, and {place.topic} is compacted: no broker takes them."
    if n := counts.get(LeftOut.TIMESTAMP):
        yield (
            f"{n:,} records have a timestamp that {place.topic} does not take: widen its "
            "message.timestamp.before.max.ms and message.timestamp.after.max.ms."
        )


def warnings(
    candidates: Sequence[Candidate], left_out: Mapping[int, LeftOut], place: TopicPartition, limits: Limits
) -> Iterator[str]:
    """What whoever produces should know before."""
    produced = [one for one in candidates if one.offset not in left_out]
    if limits.append_time and produced:
        yield (
            f"{place.topic} has message.timestamp.type=LogAppendTime: brokers replace the records' timestamps by the "
            "time at which they arrive."
        )
    since = limits.retained_since_ms
    old = sum(since is not None and 0 <= one.timestamp < since for one in produced)
    if old:
        yield (
            f"{old:,} of the records are older than the retention of {place.topic}: brokers delete them soon after "
            "they were produced. Raise retention.ms before, for as long as consumers need."
        )
    newer = sum(why is LeftOut.NEWER_VALUE for why in left_out.values())
    if newer:
        yield (
            f"{place.topic} is compacted, and {newer:,} records are left out because their keys have got newer values "
            "since, which the old ones would replace. --newer-values produces them all the same."
        )
