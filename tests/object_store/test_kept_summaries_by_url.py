"""Kept summaries in a real object store, of a snapshot that lies in it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.derivation.test_kept_summaries import reused, told
from tests.object_store.s3_server import BUCKET, S3Server
from tidegauge.derivation import kept_summaries
from tidegauge.derivation.in_process import derive_here
from tidegauge.derivation.kept_summaries import BESIDE
from tidegauge.runs.run import AuditedSnapshot
from tidegauge.snapshots.adopt import adopt, open_snapshot
from tidegauge.snapshots.location import location
from tidegauge.snapshots.manifest import MANIFEST_NAME

pytestmark = [pytest.mark.slow]

CLUSTER = "kept"
URL = f"s3://{BUCKET}/{CLUSTER}/one"


def snapshot_there(target: Path) -> AuditedSnapshot:
    found = open_snapshot(location(URL))
    return AuditedSnapshot(root=found.root, manifest=found.manifest, target=target)


def test_they_lie_beside_it_and_an_object_that_was_written_again_is_read(
    golden: Callable[[str], Path], s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_summaries, "WORTHWHILE_BYTES", 0)
    copy = shutil.copytree(golden("unclean-before"), tmp_path / "copy", symlinks=True)
    adopt(copy, cluster=CLUSTER, snapshot_id="one")
    store = s3.file_system()
    store.put(f"{copy}/", f"{BUCKET}/{CLUSTER}/one/", recursive=True)
    store.put(str(copy / MANIFEST_NAME), f"{BUCKET}/{CLUSTER}/one/{MANIFEST_NAME}")  # Last, as a capture does.
    snapshot = snapshot_there(tmp_path / "run")
    whole = derive_here(snapshot)
    first = derive_here(snapshot, kept_summaries=None)
    assert (location(URL).parent / BESIDE).is_dir()
    second = derive_here(snapshot, kept_summaries=None)
    assert reused(second) == sum(1 for row in first.index.values() if row["content"] is not None) > 0
    assert told(snapshot, first) == told(snapshot, second) == told(snapshot, whole)

    chosen = max((row for row in second.index.values() if row["reused"]), key=lambda row: row["size_bytes"])
    data = bytearray((copy / chosen["path"]).read_bytes())
    data[-1] ^= 1
    changed = f"{BUCKET}/{CLUSTER}/one/{chosen['path']}"
    manifest_at = store.modified(f"{BUCKET}/{CLUSTER}/one/{MANIFEST_NAME}")
    while True:  # The store's times are whole seconds.
        store.pipe_file(changed, bytes(data))
        store.invalidate_cache()
        if store.modified(changed) > manifest_at:
            break
    third = derive_here(snapshot, kept_summaries=None)
    assert not third.index[chosen["path"]]["reused"]
    assert told(snapshot, third) == told(snapshot, derive_here(snapshot))
    assert told(snapshot, third) != told(snapshot, whole)
