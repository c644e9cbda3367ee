"""Which snapshots need no audit: snapshots in, those that this version has not judged yet out.

Only a published run of the same cluster, snapshot and ruleset counts, so that a newer ruleset judges anew, and what
failed or was a look at some partitions is done again.
"""

from collections.abc import Sequence

from tidegauge.expectations.registry import RULESET_VERSION
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import location
from tidegauge.store import connect, migrate

_JUDGED = """
SELECT 1 FROM tidegauge.audit_run
WHERE (cluster, snapshot_id, ruleset_version) = (%s, %s, %s) AND status = 'published'
"""


def not_yet(inputs: Sequence[str], *, url: str, cluster: str | None) -> tuple[str, ...]:
    """The inputs that are not published, those that cannot be opened among them. Raises `StoreError`."""
    migrate(url)
    with connect(url, "look for earlier audits") as connection, connection.cursor() as cursor:
        left = []
        for given in inputs:
            try:
                manifest = open_snapshot(location(given), cluster=cluster, settle=False).manifest
            except SnapshotError:
                left.append(given)  # Raised again, and told, where it is to be audited.
                continue
            cursor.execute(_JUDGED, (manifest.cluster, manifest.snapshot_id, RULESET_VERSION))
            if cursor.fetchone() is None:
                left.append(given)
        return tuple(left)
