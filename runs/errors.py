"""What can go wrong around us, besides the snapshot: see `snapshots.errors` for the root and for the input's own error.

Each carries one text, so it comes through pickle (Spark's workers, Airflow's tasks) as it was raised.
"""

from tidegauge.snapshots.errors import AuditError, SnapshotError

__all__ = [
    "AddressError",
    "AuditError",
    "EvaluationError",
    "OwnError",
    "RefusedError",
    "SnapshotError",
    "SparkError",
    "StoreError",
    "UnavailableError",
]


class UnavailableError(AuditError):
    """What an audit stands on is missing or broken: Java, Spark, the store, the disk (blame: environment). Retried."""


class StoreError(UnavailableError):
    """Results could not be read or published, or the store could not be started. Retried."""


class AddressError(StoreError):
    """The store's address is no address of a Postgres (blame: whoever named it). Not worth a retry: it stays one."""


class RefusedError(StoreError):
    """The store is well, and refuses rows as they are: what one snapshot made of them concerns no other."""


class SparkError(UnavailableError):
    """Spark, or the Java below it, could not be started. Retried."""


class EvaluationError(AuditError):
    """An invariant's predicate failed, so there is no verdict on anything (blame: Tidegauge). Never retried."""


class OwnError(AuditError):
    """A mistake of ours, met while a snapshot was audited, so there is no verdict on that one (blame: Tidegauge)."""
