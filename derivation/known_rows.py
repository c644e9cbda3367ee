"""What is known of partitions beside their logs, as rows: from where it is gathered to whoever derives a partition.

In: `KnownPartition`s of a snapshot. Out: record batches of `KNOWN_SCHEMA`, what the partitions have in `Common`, and
the values again. The rule that must hold: no row grows with a cluster or a history. What holds for the whole snapshot
is in no row, and what is long of one partition has several, a stretch in each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import Any, Final, TypedDict

import pyarrow as pa

from tidegauge.derivation.derive import KnownPartition, PartitionWork
from tidegauge.derivation.files.remote_store import Stored
from tidegauge.derivation.gathering.replica_files import ReplicaWork
from tidegauge.derivation.value_columns import ValueColumn, column_of
from tidegauge.facts.context import ClusterCopy, PartitionContext
from tidegauge.facts.metadata.config_history import SettingCourse
from tidegauge.facts.metadata.expiration import UNKNOWN_EXPIRATION, Expiration
from tidegauge.facts.metadata.history import LogFiles
from tidegauge.facts.metadata.releases import Release
from tidegauge.kafka_log.coordinator_records import TransactionState
from tidegauge.kafka_log.types import TopicPartition

STRETCH: Final = 1000
"""How many of anything that a partition may have many of stand in one row."""
_BATCH_PARTITIONS: Final = 512
_LONG: Final = (
    ("history", "changes"), ("history", "epoch_leaders"), ("coordinators", "commits"), ("coordinators", "decisions"),
    ("coordinators", "share_states"), ("coordinators", "reached"), ("coordinators", "courses"), ("upkeep", "remote"),
)  # fmt: skip
"""What may be long of a context: a part of it, and the part's field."""


class Role(Enum):
    """What a row tells of its partition: what it is now, that it is gone, what it was in the earlier snapshot."""

    NOW = "now"
    GONE = "gone"
    EARLIER = "earlier"


class KnownRow(TypedDict):
    """A stretch of what is known of one partition in one role; the columns are those of `KNOWN_SCHEMA`."""

    audited: str
    topic: str
    partition: int
    stretch: int
    common: int
    role: Role
    context: PartitionContext
    replicas: tuple[ReplicaWork, ...]
    stored: Stored | None


KNOWN_VALUES: Final[Mapping[str, ValueColumn]] = {
    "role": column_of(Role),
    "context": column_of(PartitionContext),
    "replicas": column_of(tuple[ReplicaWork, ...]),
    "stored": column_of(Stored),
}

KNOWN_SCHEMA: Final = pa.schema(
    [
        ("audited", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("stretch", pa.int32()),
        ("common", pa.int32()),
        *((name, column.type) for name, column in KNOWN_VALUES.items()),
    ]
)
"""`audited` is the key of the snapshot that is audited, `common` the number of what is told once for many partitions,
and `stretch` counts the rows of one partition and role.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What the contexts of many partitions have in common: it goes to a task once, not with each."""

    cluster: ClusterCopy
    files: LogFiles | None
    transactions_by_producer: Mapping[int, TransactionState]
    producer_expiration: Expiration
    transaction_levels: SettingCourse | None
    oldest_releases: Mapping[int, Release]


_NOTHING: Final = Common(
    cluster=ClusterCopy(captured_at_ms=None, snapshot_quiet=False),
    files=None,
    transactions_by_producer={},
    producer_expiration=UNKNOWN_EXPIRATION,
    transaction_levels=None,
    oldest_releases={},
)


@dataclass(slots=True, kw_only=True)
class KnownRows:
    """The rows of one snapshot. `common` is filled while they are made: a metadata log has another than other topics,
    an earlier snapshot than this one.
    """

    audited: str
    common: list[Common] = field(default_factory=list)

    def batches(self, partitions: Mapping[TopicPartition, KnownPartition]) -> Iterator[pa.RecordBatch]:
        """The rows of some partitions."""
        items = iter(partitions.items())
        while some := list(islice(items, _BATCH_PARTITIONS)):
            rows = [row for key, known in some for row in self._rows(key, known)]
            columns = {name: [row.get(name) for row in rows] for name in KNOWN_SCHEMA.names}
            yield pa.RecordBatch.from_arrays(
                [
                    KNOWN_VALUES[name].array(values) if name in KNOWN_VALUES else pa.array(values, column.type)
                    for (name, values), column in zip(columns.items(), KNOWN_SCHEMA, strict=True)
                ],
                schema=KNOWN_SCHEMA,
            )

    def _rows(self, key: TopicPartition, known: KnownPartition) -> Iterator[KnownRow]:
        gone = PartitionWork(context=known.gone) if known.gone is not None else None
        for role, work in ((Role.NOW, known.now), (Role.GONE, gone), (Role.EARLIER, known.earlier)):
            if work is None:
                continue
            common = self._number(common_of(work.context))
            for stretch, some in enumerate(_stretches(replace(work, context=_with(work.context, _NOTHING)))):
                yield {
                    "audited": self.audited, "topic": key.topic, "partition": key.partition, "stretch": stretch,
                    "common": common, "role": role, "context": some.context, "replicas": some.replicas,
                    "stored": some.stored,
                }  # fmt: skip

    def _number(self, common: Common) -> int:
        if common not in self.common:
            self.common.append(common)
        return self.common.index(common)


def known_of(rows: Iterable[KnownRow], common: Sequence[Common]) -> KnownPartition:
    """What is known of the partition of these rows; of one without any, that nobody asked for it."""
    stretches: dict[Role, list[KnownRow]] = {}
    for row in sorted(rows, key=lambda row: row["stretch"]):
        stretches.setdefault(row["role"], []).append(row)
    works = {role: _joined(of_role, common) for role, of_role in stretches.items()}
    gone = works.get(Role.GONE)
    return KnownPartition(
        now=works.get(Role.NOW), gone=gone.context if gone is not None else None, earlier=works.get(Role.EARLIER)
    )


def _joined(rows: Sequence[KnownRow], common: Sequence[Common]) -> PartitionWork:
    context = _with(rows[0]["context"], common[rows[0]["common"]])
    first = PartitionWork(context=context, replicas=rows[0]["replicas"], stored=rows[0]["stored"])
    if len(rows) == 1:
        return first
    return PartitionWork(
        context=_changed(context, {place: _together(_long(row["context"], place) for row in rows) for place in _LONG}),
        replicas=_together(row["replicas"] for row in rows),
        stored=_together(row["stored"] for row in rows),
    )


def common_of(context: PartitionContext) -> Common:
    """What a context has in common with those of other partitions."""
    return Common(
        cluster=context.cluster,
        files=context.metadata.files,
        transactions_by_producer=context.coordinators.transactions_by_producer,
        producer_expiration=context.settings.producer_expiration,
        transaction_levels=context.settings.transaction_levels,
        oldest_releases=context.upkeep.oldest_releases if context.upkeep is not None else {},
    )


def _with(context: PartitionContext, common: Common) -> PartitionContext:
    upkeep = context.upkeep
    return replace(
        context,
        cluster=common.cluster,
        metadata=replace(context.metadata, files=common.files),
        coordinators=replace(context.coordinators, transactions_by_producer=common.transactions_by_producer),
        settings=replace(
            context.settings,
            producer_expiration=common.producer_expiration,
            transaction_levels=common.transaction_levels,
        ),
        upkeep=None if upkeep is None else replace(upkeep, oldest_releases=common.oldest_releases),
    )


def _stretches(work: PartitionWork) -> Iterator[PartitionWork]:
    """The same in pieces; that is one, of nearly all partitions."""
    many = [_long(work.context, place) for place in _LONG]
    longest = max(len(some) for some in (*many, work.replicas, work.stored) if some is not None)
    if longest <= STRETCH:
        yield work
        return
    for start in range(0, longest, STRETCH):
        yield PartitionWork(
            context=_changed(work.context, {p: _piece(s, start) for p, s in zip(_LONG, many, strict=True)}),
            replicas=_piece(work.replicas, start),
            stored=_piece(work.stored, start),
        )


def _long(context: PartitionContext, place: tuple[str, str]) -> Any:
    part = getattr(context, place[0])
    return None if part is None else getattr(part, place[1])


def _changed(context: PartitionContext, values: Mapping[tuple[str, str], Any]) -> PartitionContext:
    for (name, field_name), value in values.items():
        part = getattr(context, name)
        if part is not None:
            context = replace(context, **{name: replace(part, **{field_name: value})})
    return context


def _piece(many: Any, start: int) -> Any:
    if isinstance(many, Mapping):
        return dict(islice(many.items(), start, start + STRETCH))
    return None if many is None else many[start : start + STRETCH]


def _together(pieces: Iterable[Any]) -> Any:
    first, *others = pieces
    for piece in others:
        first = {**first, **piece} if isinstance(first, Mapping) else None if first is None else (*first, *piece)
    return first
