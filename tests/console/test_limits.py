"""How often something may be done: each address, all of them, and what is remembered of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.console.limits import Limit

WINDOW_S = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_address_waits_until_its_first_time_is_a_window_ago() -> None:
    clock = Clock()
    limit = Limit(each=2, overall=10, now=clock)
    assert limit.take("192.0.2.1") == 0
    clock.now += 20
    assert limit.take("192.0.2.1") == 0
    assert limit.take("192.0.2.1") == 40
    assert limit.wait("192.0.2.1") == 40
    assert limit.take("192.0.2.2") == 0, "another one does not wait"
    clock.now += 39.5
    assert limit.take("192.0.2.1") == 1
    clock.now += 0.5
    assert limit.take("192.0.2.1") == 0
    assert limit.take("192.0.2.1") == 20


def test_all_together_wait_too_and_asking_counts_for_nothing() -> None:
    clock = Clock()
    limit = Limit(each=2, overall=3, now=clock)
    assert [limit.wait("192.0.2.1") for _ in range(9)] == [0] * 9
    assert [limit.take(f"192.0.2.{n}") for n in range(3)] == [0] * 3
    assert limit.take("192.0.2.9") == WINDOW_S
    clock.now += WINDOW_S
    assert limit.take("192.0.2.9") == 0


@pytest.mark.parametrize(
    ("one", "other", "are_one"),
    [
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("192.0.2.1", "192.0.2.2", False),
        (None, "", True),
    ],
)
def test_a_network_of_ipv6_is_one_address(one: str | None, other: str | None, are_one: bool) -> None:
    limit = Limit(each=1, overall=10, now=Clock())
    assert limit.take(one) == 0
    assert bool(limit.take(other)) is are_one


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 90))))
def test_no_window_holds_more_and_no_more_is_remembered(tries: list[tuple[int, float]]) -> None:
    clock = Clock()
    limit = Limit(each=3, overall=7, window_s=WINDOW_S, now=clock)
    done: list[tuple[float, str]] = []
    for number, later in tries:
        clock.now += later
        address = f"192.0.2.{number}"
        wait = limit.take(address)
        recent = [(at, of) for at, of in done if at > clock.now - WINDOW_S]
        may = len(recent) < 7 and sum(of == address for _, of in recent) < 3
        assert (wait == 0) is may
        if may:
            done.append((clock.now, address))
        assert len(limit) <= 7
        assert len(limit._by_address) <= 7
