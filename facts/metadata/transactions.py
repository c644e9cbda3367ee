"""Metadata transactions: whether the records that begin and end them stand where they may.

In: the metadata log's records in offset order, where leaders changed, where nodes' metadata snapshots end. Out:
`TransactionMarks`. A transaction that is begun is ended or aborted before another begins, and a controller that becomes
active while one is open aborts it before it does anything else.

One that is open may be in flight only while nothing has come after it. A controller writes a transaction's records in
one event, so what timers and other nodes cause stands behind its end; and no node takes a snapshot while one is open,
for nothing is published until it ends. A migration from ZooKeeper is the exception: until it is done, brokers register
and the clock ticks inside its transaction.

Source: QuorumController, ActivationRecordsGenerator, OffsetControlManager, MetadataBatchLoader#maybeFlushBatches,
SnapshotGenerator; KIP-868. Of 3.x QuorumController.MigrationRecordConsumer, KIP-866.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tidegauge.kafka_log.metadata_records import MetadataRecord

_END: Final = "EndTransactionRecord"
_PRE_MIGRATION: Final = 1
"""ZkMigrationState: what ZooKeeper holds is still to be brought over."""
_EVENTS_OF_THEIR_OWN: Final = frozenset(
    {
        "NoOpRecord",
        "RegisterControllerRecord",
        "RegisterBrokerRecord",
        "UnregisterBrokerRecord",
        "BrokerRegistrationChangeRecord",
        "FenceBrokerRecord",
        "UnfenceBrokerRecord",
        "ProducerIdsRecord",
    }
)
"""Records that a timer, a broker or another controller causes: no transaction has them, but for a migration's."""


@dataclass(slots=True, kw_only=True)
class Migration:
    """Whether the metadata are still to come from ZooKeeper."""

    pending: bool = False

    def record(self, record: MetadataRecord) -> None:
        """The next record."""
        if record.name == "ZkMigrationStateRecord":
            self.pending = record.fields["zk_migration_state"] == _PRE_MIGRATION


def comes_after(record: MetadataRecord, migration: Migration) -> bool:
    """Whether a record, that stands behind the beginning of a transaction, tells that this has long been over."""
    return not migration.pending and record.name in _EVENTS_OF_THEIR_OWN


def snapshot_inside(begun_offset: int, end_offset: int, snapshot_ends: Sequence[int]) -> int | None:
    """Where a metadata snapshot ends that says the same of a transaction, seen from an offset behind it."""
    return min((end for end in snapshot_ends if begun_offset < end <= end_offset), default=None)


@dataclass(slots=True, kw_only=True)
class TransactionMarks:
    """A fold over the log. `snapshot_ends`: the end offsets of all nodes' metadata snapshots."""

    snapshot_ends: Sequence[int] = ()
    count: int = 0
    open_offset: int | None = None
    _errors: int = 0
    _first: tuple[int, str] | None = None
    _new_leader: bool = False
    _migration: Migration = field(default_factory=Migration)
    _overtaken: tuple[int, str] | None = None
    _end_offset: int = 0

    def record(self, offset: int, record: MetadataRecord) -> None:
        """The next record."""
        is_open, new_leader = self.open_offset is not None, self._new_leader
        self._new_leader = False
        self._end_offset = offset + 1
        self._migration.record(record)
        match record.name:
            case "BeginTransactionRecord":
                self.count += 1
                if is_open:
                    self._error(offset, "a transaction begins inside another")
                self.open_offset, self._overtaken = offset, None
            case "EndTransactionRecord" | "AbortTransactionRecord":
                if not is_open:
                    self._error(offset, "a transaction ends that never began")
                elif new_leader and record.name == _END:
                    self._error(offset, "a new controller ends the transaction of another")
                self.open_offset = self._overtaken = None
            case name if is_open and new_leader:
                self._error(offset, "a new controller goes on with the transaction of another")
                self._overtaken = self._overtaken or (offset, name)
            case name if is_open and self._overtaken is None and comes_after(record, self._migration):
                self._overtaken = offset, name

    def begins_with(self, records: Sequence[MetadataRecord]) -> None:
        """The metadata snapshot that stands for the log's head."""
        for each in records:
            self._migration.record(each)

    def leader_changed(self) -> None:
        """A new leader of the quorum."""
        self._new_leader = True

    def damaged(self) -> None:
        """Records are missing: what was open may have ended in them."""
        self.open_offset = self._overtaken = None
        self._new_leader = False

    @property
    def errors(self) -> int:
        """Records that may not stand where they do; one that begins what never ends is among them."""
        return self._errors + (self._never_ends is not None)

    @property
    def first_error(self) -> tuple[int, str] | None:
        """The first of them, by its offset, and what is wrong with it."""
        return min((e for e in (self._first, self._never_ends) if e is not None), default=None)

    @property
    def _never_ends(self) -> tuple[int, str] | None:
        if self.open_offset is None:
            return None
        said = []
        if self._overtaken is not None:
            said.append(f"a {self._overtaken[1]} that is not its own stands behind it, at offset {self._overtaken[0]}")
        inside = snapshot_inside(self.open_offset, self._end_offset, self.snapshot_ends)
        if inside is not None:
            said.append(f"a metadata snapshot was taken behind it, up to offset {inside}")
        return (self.open_offset, f"a transaction begins that never ends: {', and '.join(said)}") if said else None

    def _error(self, offset: int, what: str) -> None:
        self._errors += 1
        self._first = self._first or (offset, what)
