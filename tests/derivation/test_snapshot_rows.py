"""A snapshot of a run comes back from its row as it was, with the one that it is compared with."""

from dataclasses import replace
from pathlib import Path

from tests.conftest import Golden
from tidegauge.derivation.snapshot_rows import SNAPSHOT_SCHEMA, snapshot_batch, snapshots_of
from tidegauge.runs.run import AuditedSnapshot, ReadSnapshot
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.location import location


def test_it_comes_back_as_it_was(golden: Golden, tmp_path: Path) -> None:
    now, before = (open_snapshot(golden(name), cluster="c") for name in ("shares-unclean", "shares"))
    alone = AuditedSnapshot(root=now.root, manifest=now.manifest, target=tmp_path / "out")
    compared = replace(alone, previous=ReadSnapshot(root=before.root, manifest=before.manifest))
    stored = replace(compared, root=location("s3://bucket/snapshot"), target=location("s3://bucket/run"))
    batch = snapshot_batch([alone, compared, stored])
    assert batch.schema.equals(SNAPSHOT_SCHEMA)
    assert snapshots_of(batch) == [alone, compared, stored]
