"""Work in a thread of its own: how it ends, and how it is left behind."""

import threading

import pytest

from tests.real_kafka.background import Background


def test_an_error_of_the_work_surfaces_where_it_is_stopped() -> None:
    def fail(_: threading.Event) -> None:
        raise ValueError("refused")

    work = Background(fail, name="fails")
    work.start()
    with pytest.raises(ValueError, match="refused"):
        work.stop()


def test_work_that_does_not_end_is_left_behind() -> None:
    free = threading.Event()

    def hang(_: threading.Event) -> None:
        free.wait()

    work = Background(hang, name="hangs")
    work.start()
    with pytest.raises(TimeoutError, match="hangs goes on after"):
        work.stop(timeout_s=0.01)
    free.set()
    work.stop()
