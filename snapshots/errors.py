"""What can go wrong on our side. A damaged log is not an error: it is what we came to read."""


class AuditError(Exception):
    """Root of our errors: one paragraph that says what, where, and what to do. Picklable across Spark and Airflow."""


class SnapshotError(AuditError):
    """The input is not a usable snapshot (blame: capture). Never retried."""


class ClusterError(AuditError):
    """A running cluster does not answer (blame: environment). May be tried again."""


class StorageError(AuditError):
    """An object store does not answer, or not to us (blame: environment). Retried."""
