"""Every fact of every golden capture, a file each: what a change that should change nothing is held against.

    PYTHONPATH=. .venv/bin/python -m tests.derivation.golden_facts DIR

Writes DIR/<capture>.json, and DIR/<capture>+<earlier>.json where two captures are of one cluster, in half a minute.
Write them before a change and after it: `diff -r` has to be silent.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conftest import GOLDEN
from tidegauge.derivation.coverage import coverage_of
from tidegauge.derivation.in_process import derive_here
from tidegauge.embedded.archive import unpack
from tidegauge.runs.run import AuditedSnapshot, ReadSnapshot
from tidegauge.snapshots.adopt import open_snapshot

PAIRS = {
    "failed-disk-unclean": "failed-disk",
    "format-upgraded": "format-1",
    "migrated": "migrating",
    "one-controller-rejoined": "one-controller",
    "pair-clean-b2": "pair-clean-b1",
    "shares-unclean": "shares",
}
"""Captures with an earlier one of their cluster."""


def main(target: Path) -> None:
    """Writes the files."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidegauge-golden-") as scratch:
        for name, earlier in wanted():
            stem = name if earlier is None else f"{name}+{earlier}"
            facts = facts_of(Path(scratch), name, earlier)
            (target / f"{stem}.json").write_text(json.dumps(facts, indent=0, sort_keys=True), encoding="utf-8")
            print(stem, flush=True)


def wanted() -> Iterator[tuple[str, str | None]]:
    """Captures, each alone and then with the earlier one."""
    for archive in sorted(GOLDEN.glob("*.tar.gz")):
        name = archive.name.removesuffix(".tar.gz")
        yield name, None
        if name in PAIRS:
            yield name, PAIRS[name]


def facts_of(scratch: Path, name: str, earlier: str | None) -> dict[str, Any]:
    """Relation -> its rows, sorted; and what the audit says of the copy."""

    def opened(capture: str) -> ReadSnapshot:
        found = open_snapshot(unpack(GOLDEN / f"{capture}.tar.gz", scratch / capture), cluster="golden")
        return ReadSnapshot(root=found.root, manifest=found.manifest)

    own = opened(name)
    previous = opened(earlier) if earlier is not None else None
    # The target is named in no fact.
    snapshot = AuditedSnapshot(root=own.root, manifest=own.manifest, target=scratch / "run", previous=previous)
    made = derive_here(snapshot)
    facts: dict[str, Any] = {
        relation: sorted(json.dumps(row, default=str, sort_keys=True) for row in table.to_pylist())
        for relation, table in made.tables.items()
    }
    return facts | {"coverage": coverage_of(snapshot, made.context, made.index.values())}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
