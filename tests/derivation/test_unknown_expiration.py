"""Real logs of producers that idled, where nothing tells producer.id.expiration.ms: neither sound nor breached.

In: `healthy`, of which no file and no answer tells the setting. Kafka's default is no evidence of what a broker was
started with; what no setting explains is told all the same.
"""

import struct
from pathlib import Path

import pytest

from tests.conftest import Golden
from tests.derivation.damage import batches, copy_of, edit, place, sealed, segments
from tests.derivation.judging import Judge
from tests.derivation.pipeline import derived
from tests.derivation.storage_breaks import BROKERS, only_what_is_there, without_batch
from tidegauge.expectations.verdicts import InvariantResult

HOUR_MS = 3_600_000
MANY = 5_001


def copied(golden: Golden, directory: Path, partition: str) -> Path:
    copy = copy_of(golden("healthy"), directory, "__cluster_metadata-0", partition)
    only_what_is_there(copy)
    return copy


def judged(judge: Judge, directory: Path, code: str) -> tuple[InvariantResult, int]:
    """The invariant's result, and how many breaches of it there are."""
    verdicts, breaches = judge.verdicts(derived(directory), code[0])
    return verdicts[code], len([b for b in breaches if b.code == code])


@pytest.mark.parametrize(("on", "breached", "unknown"), [(BROKERS[:1], 1, 0), (BROKERS, 0, 3)])
def test_a_producer_whose_last_batch_no_replica_has_may_have_expired(
    on: tuple[str, ...], breached: int, unknown: int, golden: Golden, tmp_path: Path, judge: Judge
) -> None:
    """Where another broker's cleaner has kept the batch, the producer was remembered when it passed."""
    copy = copied(golden, tmp_path / "copy", "compacted-0")
    for broker in on:
        without_batch(segments(copy / broker / "compacted-0")[0], 0)
    result, breaches = judged(judge, copy, "G06")
    assert (breaches, result.reasons.get("setting not known", 0)) == (breached, unknown)


def appended(log: Path, at: int, *, idle_ms: int, sequence: int | None) -> None:
    """A batch of the log once more at its end, so much later than the last one. `sequence`: another first one."""
    rows = batches(log)
    start, end = place(rows[at])
    later = int(rows[-1]["max_timestamp"]) + idle_ms

    def change(data: bytearray) -> bytes:
        again = bytearray(data[start:end])
        struct.pack_into(">q", again, 0, int(rows[-1]["last_offset"]) + 1)
        struct.pack_into(">qq", again, 27, later, later)
        if sequence is not None:
            struct.pack_into(">i", again, 53, sequence)
        sealed(again, 0, len(again))
        return bytes(data + again)

    edit(log, change)


@pytest.mark.parametrize(("idle_ms", "breached", "unknown"), [(1_000, 1, 0), (60_000, 1, 0), (HOUR_MS, 0, 1)])
@pytest.mark.parametrize(
    ("partition", "segment", "at", "sequence", "code"),
    [
        ("livetx-0", 0, 0, None, "E03"),
        ("live-0", -1, -1, None, "E04"),
        ("idem-0", -1, -1, 200, "E05"),  # The one before it has sequences 185 to 249.
    ],
    ids=["an older epoch", "the same sequences", "sequences that overlap"],
)
def test_a_producer_that_goes_back_may_have_been_forgotten(
    partition: str,
    segment: int,
    at: int,
    sequence: int | None,
    code: str,
    idle_ms: int,
    breached: int,
    unknown: int,
    golden: Golden,
    tmp_path: Path,
    judge: Judge,
) -> None:
    copy = copied(golden, tmp_path / "copy", partition)
    appended(segments(copy / "broker-2" / partition)[segment], at, idle_ms=idle_ms, sequence=sequence)
    result, breaches = judged(judge, copy, code)
    assert (breaches, result.reasons.get("setting not known", 0)) == (breached, unknown)


@pytest.mark.slow
def test_thousands_of_producers_may_have_been_forgotten(golden: Golden, tmp_path: Path, judge: Judge) -> None:
    """They wrote two hours before the capture, a batch each."""
    copy = copied(golden, tmp_path / "copy", "live-0")
    for broker in BROKERS:
        log = segments(copy / broker / "live-0")[-1]
        rows = batches(log)
        start, end = place(rows[0])
        before = int(rows[-1]["max_timestamp"]) - 2 * HOUR_MS
        batch = bytearray(log.read_bytes()[start:end])
        more = bytearray()
        for number in range(MANY):
            struct.pack_into(">q", batch, 0, int(rows[-1]["last_offset"]) + 1 + number)
            struct.pack_into(">qqqhi", batch, 27, before, before, 100_000 + number, 0, 0)
            sealed(batch, 0, len(batch))
            more += batch
        edit(log, lambda data, more=more: bytes(data + more))
    result, breaches = judged(judge, copy, "E08")
    assert (breaches, result.reasons.get("setting not known", 0)) == (0, 3)
