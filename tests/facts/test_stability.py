"""The last stable offset of two snapshots, and who holds it."""

from typing import Any

from tests.facts.logs import Disks, batch, context, headers, marker, replica_input, segment
from tidegauge.facts.replicas.replica_set import replica_set
from tidegauge.facts.transactions.stability import stability_columns


def replicas(*rows: Any, high_watermark: int, captured_at_ms: int) -> Any:
    whole = headers(*rows)
    given = replica_input(segment(whole), high_watermark=high_watermark)
    return replica_set(context(captured_at_ms=captured_at_ms), [given], read=Disks(broker_1=whole))


OPEN = (batch(0, 10), batch(10, producer_id=7, sequence=0, transactional=True))


def told(before: Any, now: Any) -> tuple[Any, ...]:
    row = stability_columns(now, before)
    return row["previous_last_stable_offset"], row["last_stable_offset"], row["stuck_producer_id"]


def test_a_transaction_that_is_open_in_both_holds_it() -> None:
    before = replicas(*OPEN, high_watermark=11, captured_at_ms=1_000)
    now = replicas(*OPEN, batch(11, 50), high_watermark=61, captured_at_ms=9_000_000)
    assert told(before, now) == (10, 10, 7)
    assert stability_columns(now, before)["stuck_since_at_ms"] == 1_000


def test_a_transaction_that_has_ended_holds_nothing() -> None:
    before = replicas(*OPEN, high_watermark=11, captured_at_ms=1_000)
    now = replicas(*OPEN, marker(11, producer_id=7), high_watermark=12, captured_at_ms=9_000_000)
    assert told(before, now) == (10, 12, None)


def test_another_transaction_of_the_same_producer_is_another() -> None:
    before = replicas(*OPEN, high_watermark=11, captured_at_ms=1_000)
    later = batch(12, producer_id=7, producer_epoch=1, sequence=0, transactional=True)
    now = replicas(
        *OPEN, marker(11, producer_id=7, producer_epoch=1), later, high_watermark=13, captured_at_ms=9_000_000
    )
    assert told(before, now) == (10, 12, None)
