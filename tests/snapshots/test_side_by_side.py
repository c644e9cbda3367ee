"""Work by several threads at once: all of it is done, and after a failure nobody works any more."""

import threading
from collections.abc import Callable

import pytest

from tidegauge.snapshots.side_by_side import side_by_side


def never() -> None:
    raise AssertionError("nobody was to be stopped")


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_all_of_it_is_done_once_and_begun_in_order(workers: int) -> None:
    begun: list[int] = []

    def piece(number: int) -> Callable[[], None]:
        return lambda: begun.append(number)

    side_by_side(map(piece, range(100)), workers, stop=never)
    assert sorted(begun) == list(range(100))
    assert workers > 1 or begun == list(range(100))


def test_as_many_run_at_once_as_there_are_workers() -> None:
    # Each waits for the others: one after the other, they would wait for ever.
    together = threading.Barrier(3, timeout=60)
    side_by_side([lambda: together.wait() and None] * 3, 3, stop=never)
    assert not together.broken


def test_the_first_failure_ends_the_others_before_it_is_raised() -> None:
    running, stopped = threading.Event(), threading.Event()
    done: list[str] = []

    def long() -> None:
        running.set()
        assert stopped.wait(60)
        done.append("long")

    def failing() -> None:
        assert running.wait(60)
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        side_by_side([long, failing, *[lambda: done.append("late")] * 3], 2, stop=stopped.set)
    assert done == ["long"]
