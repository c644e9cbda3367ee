"""The rate limit, by a clock that only moves when somebody sleeps or reads."""

import pytest

from tidegauge.snapshots.copying import Meter, StoppedError
from tidegauge.snapshots.throttle import Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def test_reading_takes_as_long_as_the_limit_says():
    clock = Clock()
    meter = Meter(throttle=Throttle(10e6, clock=clock, sleep=clock.sleep))
    for _ in range(50):
        meter.read(1_000_000)
    assert round(clock.now - 100.0, 6) == 5.0
    assert meter.bytes_read == 50_000_000


def test_time_that_reading_itself_took_counts():
    clock = Clock()
    throttle = Throttle(10e6, clock=clock, sleep=clock.sleep)
    for _ in range(50):
        clock.now += 0.05
        throttle.take(1_000_000)
    assert round(clock.now - 100.0, 6) == 5.0


def test_of_a_pause_half_a_second_is_made_up_for():
    clock = Clock()
    throttle = Throttle(10e6, clock=clock, sleep=clock.sleep)
    clock.now += 3600
    throttle.take(10_000_000)
    assert round(clock.now - 100.0 - 3600, 6) == 0.5


def test_without_a_limit_nobody_waits():
    clock = Clock()
    throttle = Throttle(None, clock=clock, sleep=clock.sleep)
    throttle.take(1 << 40)
    assert clock.now == 100.0
    assert throttle.chunk_bytes == 1 << 20


def test_what_is_read_at_once_is_a_tenth_of_a_second():
    assert Throttle(1e6).chunk_bytes == 98304
    assert Throttle(10).chunk_bytes == 4096


def test_who_was_stopped_reads_no_more():
    meter = Meter(throttle=Throttle(None))
    meter.read(1)
    meter.stop()
    with pytest.raises(StoppedError):
        meter.read(1)
    assert meter.bytes_read == 1
