"""What Kafka's own log deletes of its head, on request or by settings that were in force for a while: early, or not."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import Golden
from tests.derivation.damage import batches, copy_of, place, segments
from tests.derivation.judging import Judge
from tests.derivation.metadata_damage import at, metadata_logs, metadata_record, records_of, rewrite
from tests.derivation.pipeline import derived
from tests.oracle.kafka import Oracle
from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.verdicts import InvariantResult
from tidegauge.kafka_log.schemas import FieldValue

pytestmark = pytest.mark.slow

BROKERS: Final = ("broker-1", "broker-2", "broker-3")
PARTITION: Final = "live-0"
FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
SMALL: Final = {"segment.index.bytes": "16384", "internal.segment.bytes": "65536", "file.delete.delay.ms": "0"}
AS_BY_REQUEST: Final = "DeleteRecords up to a segment's base leaves the same"
TOPIC, BROKER = 2, 4

Setting = tuple[int, str, str, FieldValue]
"""Resource type, its name, the config, its value; None takes it away."""


def set_one_after_the_other(directory: Path, settings: Iterable[Setting]) -> None:
    """The metadata log of every node with these set one after the other, the first two before all others."""
    logs = metadata_logs(directory)
    idle = [o for o, r in records_of(logs[0]) if r.name == "NoOpRecord"]
    places = [o for o in idle if 300 <= o < 310][: len(KEPT)] + [o for o in idle if o >= 310]
    for offset, (kind, resource, name, value) in zip(places, settings, strict=False):
        record = metadata_record("ConfigRecord", 0, resource_type=kind, resource_name=resource, name=name, value=value)
        rewrite(logs, at(offset, record))


def of_live(name: str, value: FieldValue) -> Setting:
    return TOPIC, "live", name, value


KEPT: Final = [of_live(name, value) for name, value in FOR_EVER.items()]


def cut_back(directory: Path, end_offset: int) -> None:
    """The metadata log of every node as it was when it ended there."""
    for path in metadata_logs(directory):
        data = path.read_bytes()
        behind = next(row for row in batches(path) if int(row["base_offset"]) >= end_offset)
        path.unlink()
        path.write_bytes(data[: place(behind)[0]])


def deleted(
    oracle: Oracle,
    directory: Path,
    settings: dict[str, str],
    *,
    brokers: Iterable[str] = BROKERS,
    up_to: int | None = None,
) -> None:
    """Lets Kafka delete the first two segments on some brokers: what is due at the moment when these two are."""
    for broker in brokers:
        replica = directory / broker / PARTITION
        logs = segments(replica)
        due = max(int(row["max_timestamp"]) for log in logs[:2] for row in batches(log))
        job = {
            "job": "delete",
            "directory": str(replica),
            "config": FOR_EVER | SMALL | settings,
            "high_watermark": int(batches(logs[-1])[-1]["last_offset"]) + 1,
            "now_ms": due + 1 + int(settings.get("retention.ms", 0)),
            "up_to": up_to,
        }
        assert oracle.ask(job)["deleted"] == len(logs) - len(segments(replica))
        assert int(segments(replica)[0].stem) == int(logs[2].stem)


@pytest.fixture
def snapshots(golden: Golden, tmp_path: Path) -> tuple[Path, Path]:
    """The capture of a cluster that was stopped in good order, twice, with a topic that is kept for ever."""
    before, after = (copy_of(golden("healthy"), tmp_path / n, "__cluster_metadata-0", PARTITION) for n in ("b", "a"))
    set_one_after_the_other(before, KEPT)
    cut_back(before, 310)
    return before, after


def early(judge: Judge, after: Path, before: Path) -> InvariantResult:
    results, _ = judge.verdicts(derived(after, previous=before), "C")
    return results["C06"]


def of_this_partition(result: InvariantResult) -> dict[str, int]:
    """Its reasons; the cluster's other partitions are left out of these copies, and told to be missing."""
    return {reason: number for reason, number in result.reasons.items() if reason != Evidence.REPLICA.not_known}


LOWERED: Final[dict[str, list[Setting]]] = {
    "by the topic's own": [of_live("retention.ms", "1000"), of_live("retention.ms", "-1")],
    "by size": [of_live("retention.bytes", "1000"), of_live("retention.bytes", "-1")],
    "by the cluster's default": [
        (BROKER, "", "log.retention.ms", "1000"),
        of_live("retention.ms", None),
        of_live("retention.ms", "-1"),
    ],
    "by a broker's own": [
        (BROKER, "2", "log.retention.ms", "1000"),
        of_live("retention.ms", None),
        of_live("retention.ms", "-1"),
    ],
}


@pytest.mark.parametrize("how", LOWERED)
def test_a_limit_that_was_lowered_and_put_back_deletes_soundly(
    oracle: Oracle, judge: Judge, snapshots: tuple[Path, Path], how: str
) -> None:
    before, after = snapshots
    set_one_after_the_other(after, [*KEPT, *LOWERED[how]])
    two = sum(log.stat().st_size for log in segments(after / "broker-1" / PARTITION)[2:])
    settings = {"retention.bytes": str(two)} if how == "by size" else {"retention.ms": "1000"}
    deleted(oracle, after, settings)
    result = early(judge, after, before)
    assert (result.breached, of_this_partition(result)) == (0, {})
    assert result.checked == 3


def test_a_request_up_to_a_segments_base_deletes_soundly(
    oracle: Oracle, judge: Judge, snapshots: tuple[Path, Path]
) -> None:
    before, after = snapshots
    set_one_after_the_other(after, KEPT)
    deleted(oracle, after, {}, up_to=int(segments(after / "broker-1" / PARTITION)[2].stem))
    result = early(judge, after, before)
    assert (result.breached, of_this_partition(result)) == (0, {AS_BY_REQUEST: 3})


def test_a_follower_that_alone_deletes_does_it_too_early(
    oracle: Oracle, judge: Judge, snapshots: tuple[Path, Path]
) -> None:
    """Who follows a leader starts no later than that: no request made it, but its clock perhaps."""
    before, after = snapshots
    set_one_after_the_other(after, KEPT)
    last_leader = derived(after).one("partitions", topic="live", partition=0)["last_leader_id"]
    follower = next(b for b in BROKERS if b != f"broker-{last_leader}")
    deleted(oracle, after, {"retention.ms": "1000"}, brokers=[follower])
    assert early(judge, after, before).breached == 1


def test_what_somebody_took_of_every_replica_is_early(judge: Judge, snapshots: tuple[Path, Path]) -> None:
    before, after = snapshots
    set_one_after_the_other(after, KEPT)
    for broker in BROKERS:
        for path in (after / broker / PARTITION).glob(f"{0:020d}.*"):
            path.unlink()
    assert early(judge, after, before).breached == 3
