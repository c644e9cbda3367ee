"""Manifests: what is written is read back, and what does not belong to a snapshot is refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import (
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

HERE = Path("here")

MANIFEST = Manifest(
    cluster="payments",
    cluster_id="0EXTuYGaRBOm64fYFazsDQ",
    snapshot_id="s-1",
    source=Source.CAPTURED,
    mode=Mode.FULL,
    consistency=Consistency.ATOMIC,
    brokers=(
        BrokerCapture(
            broker_id=3,
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
    assert from_json(to_json(MANIFEST), place=HERE, where="m") == MANIFEST
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
        with pytest.raises(SnapshotError, match=r"leaves the snapshot|holds a NUL"):
            from_json(changed(change), place=HERE, where="MANIFEST.json")


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
        changed(lambda v: v["brokers"].append(v["brokers"][0] | {"directory": "broker-4"})),
        changed(lambda v: v["brokers"][0]["files"][0].pop("size_bytes")),
    ],
)
def test_what_is_no_manifest_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(SnapshotError, match=r"where\.json is not a manifest .* tidegauge snapshot adopt"):
        from_json(text, place=HERE, where="where.json")


def test_another_schema_version_is_named() -> None:
    with pytest.raises(SnapshotError, match="schema version 9; this release reads versions up to 2"):
        from_json(changed(set_to("schema_version", 9)), place=HERE, where="m")


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["..", "/", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a manifest: keys and indexes that lead there."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, each in inner for place in places(each, (*at, key)))]


@settings(max_examples=500)
@given(data=st.data())
def test_whatever_stands_in_a_manifest_it_is_read_or_refused(data: st.DataObject) -> None:
    value = {"": json.loads(to_json(MANIFEST))}
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(value)[1:]))
        at: Any = value
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = data.draw(ANYTHING)
    text = json.dumps(value[""])
    try:
        manifest = from_json(text, place=HERE, where="MANIFEST.json")
    except SnapshotError:
        return
    assert from_json(to_json(manifest), place=HERE, where="again") == manifest
    to_json(manifest).encode()
    for broker in manifest.brokers:
        assert 0 <= broker.broker_id < 1 << 31
        for at_ms in (broker.read_started_at_ms, broker.read_finished_at_ms):
            assert at_ms is None or datetime.fromtimestamp(at_ms / 1000, UTC).year <= 9999


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"schema_version":' * 50_000,
        to_json(MANIFEST).replace('"size_bytes": 7', '"size_bytes": Infinity'),
        to_json(MANIFEST).replace('"size_bytes": 7', '"size_bytes": 1e400'),
        to_json(MANIFEST).replace('"size_bytes": 7', '"size_bytes": ' + "9" * 5000),
        to_json(MANIFEST).replace('"broker_id": 3', '"broker_id": 4294967296'),
        to_json(MANIFEST).replace('"read_started_at_ms": 5', '"read_started_at_ms": 253402300800000'),
    ],
)
def test_a_text_that_only_an_attacker_writes_is_refused(text: str) -> None:
    with pytest.raises(SnapshotError, match="is not a manifest that can be used"):
        from_json(text, place=HERE, where="MANIFEST.json")


def test_a_snapshot_does_not_say_of_itself_that_it_is_settled() -> None:
    foreign = {
        "broker_id": 1, "name": ".", "directory_id": None, "cluster_id": None, "node_id": None, "path": "x",
        "reason": "",
    }  # fmt: skip
    text = changed(lambda v: v.__setitem__("foreign", [foreign]))
    assert from_json(text, place=HERE, where="m").foreign == ()
    assert len(from_json(text, place=HERE, where="m", settled=True).foreign) == 1


class _Counted(str):
    """A path that counts how often it is looked into."""

    looks = 0

    def rfind(self, *given: Any) -> int:
        _Counted.looks += 1
        return super().rfind(*given)

    def startswith(self, *given: Any) -> bool:
        _Counted.looks += 1
        return super().startswith(*given)


def test_no_file_asks_for_each_log_dir_whose_it_is() -> None:
    """Whoever writes a manifest may name a million of each."""
    log_dirs = tuple(LogDir(name=name, directory_id=None) for name in (".", "d1", "d1/inner", *map(str, range(5000))))
    paths = ["b/d1/inner/t-0/x.log", "b/d1/t-0/x.log", "b/t-0/x.log", "b/d1", "b", "c/d1/x", f"b/4999/{'y/' * 5000}"]
    files = tuple(FileEntry(path=_Counted(path), size_bytes=1) for path in paths)
    found = replace(MANIFEST.brokers[0], directory="b", log_dirs=log_dirs, files=files).by_log_dir()
    assert {name: list(of_dir) for name, of_dir in found.items() if of_dir} == {
        "d1/inner": ["t-0/x.log"],
        "d1": ["t-0/x.log"],
        ".": ["t-0/x.log", "d1"],
        "4999": ["y/" * 5000],
    }
    assert _Counted.looks < 100
