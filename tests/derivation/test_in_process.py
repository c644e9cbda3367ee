"""What is derived without Spark: which snapshots are, and that what is found does not tell."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.spark_jobs.test_whole_snapshots import rows, told
from tidegauge.audit import steps
from tidegauge.audit.request import AuditRequest
from tidegauge.derivation.in_process import HERE_BYTES, HERE_DECODED_BYTES, HERE_SEGMENTS, fit_here
from tidegauge.relations import LOSSES, RELATIONS
from tidegauge.runs.errors import OwnError
from tidegauge.runs.run import NO_STORE, AuditedSnapshot, ReadSnapshot, new_run
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import location
from tidegauge.snapshots.manifest import FileEntry
from tidegauge.spark_jobs import session

LOST = "deaf-unclean"
AUDITS = """
import json, sys
from pathlib import Path
from tidegauge.audit.request import AuditRequest
from tidegauge.audit.steps import audit
from tidegauge.runs.restriction import restriction
from tidegauge.runs.run import NO_STORE
for master, out, snapshot, previous, partitions in json.loads(sys.argv[1]):
    asked = AuditRequest(
        snapshots=(snapshot,), out=Path(out), fail_on="never", store=NO_STORE, previous=previous,
        restriction=restriction(partitions, []),
    )
    audit(asked, master=master, progress=lambda line: None)
"""


@pytest.fixture
def snapshot(golden: Callable[[str], Path], tmp_path: Path) -> AuditedSnapshot:
    inputs = (str(golden(LOST)),)
    (found,) = new_run(tmp_path / "run", inputs, store_url="none", fail_on="never", started_at_ms=0).snapshots
    return found


def with_log(snapshot: AuditedSnapshot, topic: str, size_bytes: int, *, segments: int = 1) -> AuditedSnapshot:
    """The same with a partition more, of so many segments with so many bytes."""
    broker, *brokers = snapshot.manifest.brokers
    directory = Path(next(f.path for f in broker.files if f.path.endswith(".log"))).parents[1]
    more = tuple(
        FileEntry(path=f"{directory}/{topic}-7/{number:020d}.log", size_bytes=size_bytes) for number in range(segments)
    )
    changed = replace(broker, files=(*broker.files, *more))
    return replace(snapshot, manifest=replace(snapshot.manifest, brokers=(changed, *brokers)))


def test_what_is_read_sooner_than_spark_starts_is_derived_here(snapshot: AuditedSnapshot) -> None:
    assert fit_here([snapshot])
    assert fit_here([with_log(snapshot, "orders", HERE_BYTES // 2 - (8 << 20), segments=2)])
    assert fit_here([with_log(snapshot, "orders", 1, segments=HERE_SEGMENTS - 100)])


@pytest.mark.parametrize(
    ("topic", "size_bytes", "segments"),
    [
        ("orders", HERE_BYTES // 2, 2),
        ("__consumer_offsets", HERE_DECODED_BYTES, 1),
        ("__transaction_state", HERE_DECODED_BYTES, 1),
        ("orders", 1, HERE_SEGMENTS),
    ],
)
def test_what_is_not_goes_to_spark(snapshot: AuditedSnapshot, topic: str, size_bytes: int, segments: int) -> None:
    large = with_log(snapshot, topic, size_bytes, segments=segments)
    assert not fit_here([large])
    assert not fit_here([snapshot, large])
    assert not fit_here([replace(snapshot, previous=ReadSnapshot(root=large.root, manifest=large.manifest))])


@pytest.mark.slow
def test_what_lies_in_an_object_store_goes_to_spark(snapshot: AuditedSnapshot) -> None:
    assert not fit_here([replace(snapshot, root=location("s3://bucket/snapshot"))])


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "start", start)
    monkeypatch.delenv("TIDEGAUGE_SPARK_MASTER", raising=False)


@pytest.mark.postgres
@pytest.mark.parametrize("chosen", ["--master", "TIDEGAUGE_SPARK_MASTER"])
def test_who_chose_a_master_gets_spark(
    chosen: str, golden: Callable[[str], Path], tmp_path: Path, no_spark: None, monkeypatch: pytest.MonkeyPatch,
    store_url: str,
) -> None:  # fmt: skip
    if chosen == "TIDEGAUGE_SPARK_MASTER":
        monkeypatch.setenv(chosen, "local[1]")
    master = "local[1]" if chosen == "--master" else None
    with pytest.raises(AssertionError, match="Spark was started"):
        audited((golden(LOST),), tmp_path / "out", store_url, master=master)


def audited(snapshots: tuple[Path, ...], out: Path, store_url: str, *, master: str | None = None) -> steps.AuditResult:
    asked = AuditRequest(
        snapshots=tuple(map(str, snapshots)), out=out, fail_on="critical", store=store_url, cluster="here"
    )
    return steps.audit(asked, master=master, progress=lambda _: None)


@pytest.mark.slow
@pytest.mark.postgres
def test_one_that_cannot_be_derived_fails_alone(
    golden: Callable[[str], Path], tmp_path: Path, no_spark: None, monkeypatch: pytest.MonkeyPatch, store_url: str
) -> None:
    sound, damaged = golden(LOST), tmp_path / "damaged"
    shutil.copytree(golden("epochs"), damaged)
    from tidegauge.derivation import in_process

    derive_here = in_process.derive_here

    def failing(snapshot: AuditedSnapshot, **how: Any) -> in_process.Derived:
        if snapshot.root == damaged:
            raise ZeroDivisionError("a mistake of ours")
        return derive_here(snapshot, **how)

    monkeypatch.setattr(in_process, "derive_here", failing)
    with pytest.raises(OwnError, match="a mistake of ours"):
        audited((sound, damaged), tmp_path / "out", store_url)
    assert len(list((tmp_path / "out").rglob("report.json"))) == 1
    with pytest.raises(OwnError, match="a mistake of ours"):
        audited((damaged,), tmp_path / "alone", store_url)
    assert not list((tmp_path / "alone").rglob("report.json"))


def test_a_snapshot_of_nothing_is_refused_before(tmp_path: Path, no_spark: None) -> None:
    with pytest.raises(SnapshotError):
        audited((tmp_path,), tmp_path / "out", NO_STORE)


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.postgres
def test_it_finds_what_spark_finds(golden: Callable[[str], Path], tmp_path: Path) -> None:
    """Alone, compared with an earlier one, and of one partition."""
    cases = {
        "alone": (golden(LOST), None, ()),
        "pair": (golden("failed-disk-unclean"), golden("failed-disk"), ()),
        "part": (golden("unclean-before"), None, ("orders-0",)),
    }
    asked = [
        (master, str(tmp_path / way / name), str(snapshot), str(earlier) if earlier else None, partitions)
        for way, master in (("here", None), ("spark", "local[2]"))
        for name, (snapshot, earlier, partitions) in cases.items()
    ]
    subprocess.run([sys.executable, "-c", AUDITS, json.dumps(asked)], check=True, timeout=1800)
    for name in cases:
        here, spark = tmp_path / "here" / name, tmp_path / "spark" / name
        assert told(here) == told(spark), name
        for relation in (*RELATIONS, LOSSES.name):
            assert rows(here, relation) == rows(spark, relation), (name, relation)
        assert (here / "facts" / "segments" / "part-whole.parquet").exists()
        assert not (spark / "facts" / "segments" / "part-whole.parquet").exists()
