"""Many small snapshots in one run are derived whole, one a task; it must not show in what is found."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tidegauge.derivation.fact_files import read_relation
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.relations import LOSSES, RELATIONS
from tidegauge.runs.restriction import Restriction
from tidegauge.runs.run import AuditedSnapshot, Run, new_run
from tidegauge.sim_engine.scenarios.registry import SCENARIOS
from tidegauge.sim_engine.scenarios.write_moment import write_moment
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.spark_jobs import whole_snapshots
from tidegauge.spark_jobs.whole_snapshots import MANY, SMALL_BYTES, divided

STORIES = (
    "unclean-election",
    "remote-object-lost",
    "hanging-transaction",
    "bit-rot",
    "stale-disk-returns",
    "leader-epoch-truncation",
)

AUDITS = """
import json, sys
from pathlib import Path
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.spark_jobs import whole_snapshots
from tidegauge.runs.run import NO_STORE
from tidegauge.audit.request import AuditRequest
from tidegauge.audit.steps import audit
said = []
for many, out, inputs, previous in json.loads(sys.argv[2]):
    whole_snapshots.MANY = many
    try:
        asked = AuditRequest(
            snapshots=tuple(inputs), out=Path(out), fail_on="never", store=NO_STORE, previous=previous, data_docs=False
        )
        audit(asked, master="local[2]", progress=lambda line: None)
        said.append(None)
    except SnapshotError as refusal:
        said.append(str(refusal))
Path(sys.argv[1]).write_text(json.dumps(said))
"""
"""Several audits in one process, which starts one JVM; in a file, of each: null, or how it was refused."""
BY_SEGMENT = 10**9


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Directories of snapshots, each with the one that it is compared with."""
    root = tmp_path_factory.mktemp("small")
    found: dict[str, str | None] = {}
    for name in STORIES:
        for moment in SCENARIOS[name].play(1).moments:
            directory = write_moment(moment, root / name / moment.name, cluster=name, seed=1)
            found[str(directory)] = str(root / name / moment.previous) if moment.previous is not None else None
    assert len(found) >= MANY
    assert any(found.values())
    return found


@pytest.fixture(scope="module")
def run(snapshots: dict[str, str | None], tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("run")
    # As if it began in 2026: what is captured is never of the time after.
    return new_run(out, tuple(snapshots), store_url="none", fail_on="never", started_at_ms=1_795_000_000_000)


def names(run: Run) -> list[str]:
    return [snapshot.key for snapshot in run.snapshots]


def larger(snapshot: AuditedSnapshot, size_bytes: int) -> AuditedSnapshot:
    """The same with a log that is said to have that many bytes more."""
    broker, *brokers = snapshot.manifest.brokers
    file, *files = sorted(broker.files, key=lambda each: not each.path.endswith(".log"))
    changed = replace(broker, files=(replace(file, size_bytes=file.size_bytes + size_bytes), *files))
    return replace(snapshot, manifest=replace(snapshot.manifest, brokers=(changed, *brokers)))


@pytest.mark.slow
def test_only_many_are_taken_whole(run: Run) -> None:
    by_segment, whole = divided(run)
    assert (names(by_segment), names(whole)) == ([], names(run))
    few = replace(run, snapshots=run.snapshots[: MANY - 1])
    by_segment, whole = divided(few)
    assert (names(by_segment), names(whole)) == (names(few), [])


@pytest.mark.slow
def test_a_large_one_is_read_by_segments_and_the_small_ones_beside_it_are_not(run: Run) -> None:
    first, *others = run.snapshots
    mixed = replace(run, snapshots=(larger(first, SMALL_BYTES), *others))
    by_segment, whole = divided(mixed)
    assert (names(by_segment), names(whole)) == ([first.key], [each.key for each in others])


def test_a_small_one_that_is_compared_with_a_large_one_is_not_small(run: Run) -> None:
    first, second, *others = run.snapshots
    compared = replace(first, previous=larger(second, SMALL_BYTES))
    by_segment, _ = divided(replace(run, snapshots=(compared, second, *others)))
    assert names(by_segment) == [first.key]


def test_a_restriction_reads_only_what_it_was_asked_for(run: Run) -> None:
    restriction = Restriction(partitions=frozenset({TopicPartition("orders", 0)}))
    by_segment, whole = divided(replace(run, restriction=restriction))
    assert (names(by_segment), names(whole)) == (names(run), [])


@dataclass(frozen=True, slots=True)
class BothWays:
    """What the two ways left and said: of all snapshots, and of a comparison with what is no past of one of them."""

    found: dict[str, dict[str, Path]]
    said: dict[str, str | None]
    misused: Path


@pytest.fixture(scope="module")
def both_ways(snapshots: dict[str, str | None], tmp_path_factory: pytest.TempPathFactory) -> BothWays:
    root = tmp_path_factory.mktemp("both")
    previous = {each: earlier for each, earlier in snapshots.items() if earlier is not None}
    first, second = [each for each in snapshots if Path(each).parent.name == "unclean-election"][:2]
    ways = {"whole": MANY, "by segment": BY_SEGMENT}
    asked = [[many, str(root / way), list(snapshots), previous] for way, many in ways.items()]
    asked += [[many, str(root / f"{way} refused"), list(snapshots), {first: second}] for way, many in ways.items()]
    subprocess.run([sys.executable, "-c", AUDITS, str(root / "said"), json.dumps(asked)], check=True, timeout=1800)
    answers = json.loads((root / "said").read_text())
    assert answers[: len(ways)] == [None] * len(ways)
    return BothWays(
        found={
            way: {
                str(each.parent.relative_to(root / way)): each.parent for each in (root / way).glob("*/*/report.json")
            }
            for way in ways
        },
        said=dict(zip(ways, answers[len(ways) :], strict=True)),
        misused=Path(first),
    )


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.postgres
def test_both_ways_find_the_same(both_ways: BothWays, snapshots: dict[str, str | None]) -> None:
    found = both_ways.found
    assert found["whole"].keys() == found["by segment"].keys()
    assert len(found["whole"]) == len(snapshots)
    for name, directory in found["whole"].items():
        other = found["by segment"][name]
        assert told(directory) == told(other), name
        for relation in (*RELATIONS, LOSSES.name):
            assert rows(directory, relation) == rows(other, relation), (name, relation)
        assert list(directory.glob("facts/segments/part-whole.parquet"))
        assert not list(other.glob("facts/segments/part-whole.parquet"))


def told(directory: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((directory / "report.json").read_text())
    return {name: value for name, value in report.items() if name != "run"}


def rows(directory: Path, relation: str) -> list[str]:
    return sorted(
        json.dumps(row, default=str, sort_keys=True) for row in read_relation(directory / "facts", relation).to_pylist()
    )


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.postgres
def test_one_that_cannot_be_used_is_said_as_ever(both_ways: BothWays) -> None:
    """A comparison with what is no past of the snapshot is refused with the same words, whichever way is taken."""
    whole, by_segment = both_ways.said["whole"], both_ways.said["by segment"]
    assert whole is not None
    assert whole == by_segment
    assert open_snapshot(both_ways.misused).manifest.snapshot_id in whole
    assert whole_snapshots.MANY == MANY
