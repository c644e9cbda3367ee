"""Metadata transactions: whether the records that begin and end them stand where they may.

In: the names of the metadata log's records in offset order, and where leaders changed. Out: `TransactionMarks`. The
rule that must hold: a transaction that is begun is ended or aborted before another begins, and a controller that
becomes active while one is open aborts it before it does anything else.

Source: QuorumController, ActivationRecordsGenerator, OffsetControlManager, MetadataBatchLoader; KIP-868.
"""

from dataclasses import dataclass
from typing import Final

_END: Final = "EndTransactionRecord"


@dataclass(slots=True, kw_only=True)
class TransactionMarks:
    """A fold over the log."""

    count: int = 0
    open_offset: int | None = None
    errors: int = 0
    first_error_offset: int | None = None
    first_error: str | None = None
    _new_leader: bool = False

    def record(self, offset: int, name: str) -> None:
        """The next record."""
        is_open, new_leader = self.open_offset is not None, self._new_leader
        self._new_leader = False
        match name:
            case "BeginTransactionRecord":
                self.count += 1
                if is_open:
                    self._error(offset, "a transaction begins inside another")
                self.open_offset = offset
            case "EndTransactionRecord" | "AbortTransactionRecord":
                if not is_open:
                    self._error(offset, "a transaction ends that never began")
                elif new_leader and name == _END:
                    self._error(offset, "a new controller ends the transaction of another")
                self.open_offset = None
            case _ if is_open and new_leader:
                self._error(offset, "a new controller goes on with the transaction of another")

    def leader_changed(self) -> None:
        """A new leader of the quorum."""
        self._new_leader = True

    def damaged(self) -> None:
        """Records are missing: what was open may have ended in them."""
        self.open_offset = None
        self._new_leader = False

    def _error(self, offset: int, what: str) -> None:
        self.errors += 1
        if self.first_error_offset is None:
            self.first_error_offset, self.first_error = offset, what
