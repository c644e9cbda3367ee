"""Manifests: what is written is read back, and what does not belong to a snapshot is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kafka_log.types import BrokerId
from snapshots.errors import SnapshotError
from snapshots.manifest import (
    BrokerCapture,
    Consistency,
    FileEntry,
    LeftOut,
    LogDir,
    Manifest,
    Mode,
    Source,
    from_json,
    to_json,
)

MANIFEST = Manifest(
    cluster="payments",
    cluster_id="0EXTuYGaRBOm64fYFazsDQ",
    snapshot_id="s-1",
    source=Source.CAPTURED,
    mode=Mode.FULL,
    consistency=Consistency.ATOMIC,
    brokers=(
        BrokerCapture(
            broker_id=BrokerId(3),
            directory="broker-3",
            rack="a",
            log_dirs=(LogDir(name="d1", directory_id="x"), LogDir(name=".", directory_id=None)),
            read_started_at_ms=5,
            read_finished_at_ms=None,
            files=(
                FileEntry(path="broker-3/d1/t-0/00000000000000000000.log", size_bytes=7, read_at_ms=6, sha256="ab"),
                FileEntry(path="broker-3/d1/ünïcode..name", size_bytes=0),
            ),
        ),
    ),
    left_out=(LeftOut(path="broker-3/x", reason="a link; not followed"),),
)


def test_a_manifest_survives_its_text() -> None:
    assert from_json(to_json(MANIFEST), where="m") == MANIFEST
    assert [f.size_bytes for f in MANIFEST.files()] == [7, 0]


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    value = json.loads(to_json(MANIFEST))
    change(value)
    return json.dumps(value)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../secret",
        "broker-3/../../secret",
        "broker-3/..",
        "",
        "broker-3/nul\0byte",
    ],
)
def test_paths_that_lead_out_of_the_snapshot_are_refused(path: str) -> None:
    def of_file(value: dict[str, Any]) -> None:
        value["brokers"][0]["files"][0]["path"] = path

    def of_broker(value: dict[str, Any]) -> None:
        value["brokers"][0]["directory"] = path

    def of_log_dir(value: dict[str, Any]) -> None:
        value["brokers"][0]["log_dirs"][0]["name"] = path

    for change in (of_file, of_broker, of_log_dir):
        with pytest.raises(SnapshotError, match="leaves the snapshot"):
            from_json(changed(change), where="MANIFEST.json")


def set_to(name: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda manifest: manifest.__setitem__(name, value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        changed(lambda v: v.pop("brokers")),
        changed(set_to("cluster", 5)),
        changed(set_to("snapshot_id", None)),
        changed(set_to("consistency", "perhaps")),
        changed(set_to("brokers", [5])),
        changed(lambda v: v["brokers"][0].__setitem__("broker_id", "three")),
        changed(lambda v: v["brokers"][0]["files"][0].pop("size_bytes")),
    ],
)
def test_what_is_no_manifest_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(SnapshotError, match=r"where\.json is not a manifest .* tidegauge snapshot adopt"):
        from_json(text, where="where.json")


def test_another_schema_version_is_named() -> None:
    with pytest.raises(SnapshotError, match="schema version 9; this release reads version 1"):
        from_json(changed(set_to("schema_version", 9)), where="m")
