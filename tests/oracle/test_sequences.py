"""Producers' sequences: the batches that a leader would have refused are the ones that Tidegauge calls breaks.

Kafka's side: `ProducerStateManager` and `ProducerAppendInfo`, asked about each batch as if a producer had just sent
it. A batch that only repeats, or is fenced, leaves their state alone; one that brings new sequences is taken in after
it has been refused, or every later one would be called missing too.
"""

import random
from typing import Any, Final

import numpy as np
import pytest

from tests.facts.logs import summarise
from tests.kafka_log.writing import batch, marker, record
from tests.oracle.kafka import Oracle
from tidegauge.facts.producers.replay import ProducerReplay
from tidegauge.facts.segments.summary import FORWARD_LIMIT, SEQUENCE_MASK
from tidegauge.kafka_log.scan import scan_buffer

pytestmark = pytest.mark.slow

SEED: Final = 98
HISTORIES: Final = 2000
AT_ONCE: Final = 250
TRANSACTIONAL: Final = 0x10
COMMIT: Final = bytes.fromhex("00000001")
ABORT: Final = bytes.fromhex("00000000")

MEANT: Final = {
    # What a fenced producer wrote may have gaps in itself, too.
    "lost": {"missing before", "InvalidProducerEpochException"},
    "nonzero_start": {"missing before"},
    "duplicate": {"repeats"},
    # The fold has joined what follows: a repetition and the next batches look like one that goes on.
    "overlap": {"repeats", "repeats and goes on"},
    "epoch_regression": {"InvalidProducerEpochException"},
}
GONE_BACK: Final = {"duplicate", "overlap", "repeats", "repeats and goes on"}


class Producer:
    """One producer that mostly does as it should."""

    def __init__(self, draw: random.Random, producer_id: int) -> None:
        self.draw = draw
        self.id = producer_id
        self.epoch = draw.randrange(3)
        self.next = draw.choice((0, 0, draw.randrange(100), SEQUENCE_MASK - draw.randrange(30)))
        self.transactional = draw.randrange(3) == 0
        self.marked = False

    def write(self, base_offset: int) -> tuple[bytes, int]:
        """Its next batch, and how many records that has."""
        draw = self.draw
        count = draw.randint(1, 5)
        what = draw.choices(
            ("next", "skip", "back", "epoch", "fenced", "marker"), weights=(70, 5, 8, 5, 4, 12 * self.transactional)
        )[0]
        if what == "marker":
            self.epoch += draw.randrange(2)
            self.next = 0 if draw.randrange(2) else self.next
            kind = draw.choice((COMMIT, ABORT))
            return marker(base_offset, key=kind, producer_id=self.id, producer_epoch=self.epoch), 1
        epoch, first = self.epoch, self.next
        if what == "skip":
            first = (first + draw.randint(1, 40)) & SEQUENCE_MASK
        elif what == "back":
            first = (first - draw.randint(1, 12)) & SEQUENCE_MASK
        elif what == "epoch":
            self.epoch = epoch = epoch + 1
            first = draw.choice((0, 0, 0, 7))
        elif what == "fenced" and epoch:
            epoch, first = epoch - 1, draw.choice((0, first))
        end = (first + count) & SEQUENCE_MASK
        if (what != "fenced" and (end - self.next) & SEQUENCE_MASK < FORWARD_LIMIT) or what == "epoch":
            self.next = end
        written = batch(
            base_offset,
            b"".join(record(at, None, b"v") for at in range(count)),
            count,
            attributes=TRANSACTIONAL * self.transactional,
            producer_id=self.id,
            producer_epoch=epoch,
            base_sequence=first,
        )
        return written, count


def history(draw: random.Random) -> bytes:
    producers = [Producer(draw, producer_id) for producer_id in range(draw.randint(1, 3))]
    log, offset = b"", 0
    for _ in range(draw.randint(3, 25)):
        written, count = draw.choice(producers).write(offset)
        log += written
        offset += count
    return log


def test_the_batches_that_break_a_sequence_are_those_that_kafka_refuses(oracle: Oracle) -> None:
    draw = random.Random(SEED)
    logs = [history(draw) for _ in range(HISTORIES)]
    refused: dict[str, int] = {}
    for start in range(0, HISTORIES, AT_ONCE):
        part = logs[start : start + AT_ONCE]
        asked = [{"bytes": log.hex(), "forward_limit": FORWARD_LIMIT} for log in part]
        answers = oracle.ask({"job": "sequences", "logs": asked})["answers"]
        for at, (log, kafka) in enumerate(zip(part, answers, strict=True), start):
            headers, corruptions = scan_buffer(log)
            assert not corruptions
            where = f"seed {SEED}, history {at}: {_plain(headers, kafka['verdicts'])}"
            replay = ProducerReplay()
            split = draw.randrange(len(headers) + 1)
            for stretch in (headers[:split], headers[split:]):
                summary = summarise([np.ascontiguousarray(stretch)])
                replay.add(summary.events, summary.gaps)
            breaks = list(replay.breaks())
            said = {
                (int(row["producer_id"]), int(row["base_offset"])): verdict
                for row, verdict in zip(headers, kafka["verdicts"], strict=True)
                if verdict != "accepted"
            }
            for verdict in said.values():
                refused[verdict] = refused.get(verdict, 0) + 1
            for found in breaks:
                assert said.get((found.producer_id, found.offset)) in MEANT[found.cause], f"{where}: {found}"
            runs = _runs(headers)
            for (producer_id, offset), verdict in said.items():
                # Batches that follow one another are one run of the summary, of which only the first is named.
                covering = [
                    b
                    for b in breaks
                    if b.producer_id == producer_id
                    and (verdict in MEANT[b.cause] or {b.cause, verdict} <= GONE_BACK)
                    and runs[b.offset] == runs[offset]
                    and b.offset <= offset
                ]
                assert covering, f"{where}: offset {offset}"
    assert all(refused.get(verdict, 0) > 100 for verdict in set().union(*MEANT.values())), refused


def _runs(headers: Any) -> dict[int, int]:
    """Base offset of a batch -> base offset of the first one of its run: one producer and epoch, rising sequences."""
    runs: dict[int, int] = {}
    open_runs: dict[int, tuple[int, int, int]] = {}
    for row in headers:
        producer_id, epoch, offset = int(row["producer_id"]), int(row["producer_epoch"]), int(row["base_offset"])
        before, first = open_runs.get(producer_id), int(row["base_sequence"])
        start = offset
        if before and first >= 0 and before[0] == epoch and (first - before[1]) & SEQUENCE_MASK < FORWARD_LIMIT:
            start = before[2]
        runs[offset] = start
        open_runs[producer_id] = (
            epoch if first >= 0 else -1,
            (first + int(row["record_count"])) & SEQUENCE_MASK,
            start,
        )
    return runs


def _plain(headers: Any, verdicts: list[str]) -> list[tuple[int | str, ...]]:
    names = ("base_offset", "producer_id", "producer_epoch", "base_sequence", "record_count", "control_type")
    return [(*(int(row[n]) for n in names), verdict) for row, verdict in zip(headers, verdicts, strict=True)]
