"""Indexes whose room is told by the manifest: the facts are those of the files with their room, open or closed."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.pipeline import Derived, derived
from tests.sampling import one_in
from tests.snapshots.one_manifest import in_one_file
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import MANIFEST_NAME, Consistency, is_preallocated


def facts(found: Derived) -> dict[str, list[str]]:
    return {
        relation: sorted(json.dumps(row, default=str, sort_keys=True) for row in rows)
        for relation, rows in found.rows.items()
    }


@pytest.mark.parametrize("which", one_in(2, ["active", "closed"]))
@pytest.mark.parametrize("name", one_in(2, ["unclean-before", "soak-01"]))
def test_the_same_facts_as_with_the_zeros(golden: Golden, tmp_path: Path, name: str, which: str) -> None:
    whole = tmp_path / "whole" / "copy"
    shutil.copytree(golden(name), whole)
    (whole / MANIFEST_NAME).unlink(missing_ok=True)
    logs = [sorted(directory.glob("*.log")) for directory in whole.rglob("*") if directory.is_dir()]
    chosen = [log for each in logs if each for log in (each[-1:] if which == "active" else each[:-1])]
    for log in chosen:
        for kind, size in (("index", 1 << 20), ("timeindex", (1 << 20) // 12 * 12)):
            if (index := log.with_suffix(f".{kind}")).exists() and index.stat().st_size < size:
                os.truncate(index, size)
    adopt(whole, cluster="golden", consistency=Consistency.FUZZY)
    told = tmp_path / "told" / "copy"
    shutil.copytree(whole, told)
    without_room(told)
    assert facts(derived(told)) == facts(derived(whole))


def without_room(root: Path) -> None:
    """As a capture leaves a snapshot in an object store."""
    manifest = in_one_file(root)
    shortened = 0
    for broker in manifest["brokers"]:
        for file in broker["files"]:
            if not is_preallocated(file["path"]):
                continue
            data = (root / file["path"]).read_bytes()
            stored = data.rstrip(b"\0")
            if len(data) - len(stored) >= 4096:
                (root / file["path"]).write_bytes(stored)
                file.update(size_bytes=len(stored), zeros_behind=len(data) - len(stored))
                shortened += 1
    assert shortened
    (root / MANIFEST_NAME).write_text(json.dumps(manifest))
