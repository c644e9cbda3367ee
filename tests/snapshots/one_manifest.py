"""A snapshot's manifest as one file, as version 1 had it: for tests that change what it says of a file."""

import json
from pathlib import Path
from typing import Any

from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.manifest import to_json


def in_one_file(directory: Path) -> Any:
    """What MANIFEST.json and its parts say, as the JSON of version 1; the parts are gone, and it is to be written."""
    manifest = open_snapshot(directory, settle=False).manifest
    value = json.loads(to_json(manifest)) | {"schema_version": 1}
    for part in directory.glob("MANIFEST.*.jsonl"):
        part.unlink()
    return value
