"""How long a test waits for a cluster, and what it asks again.

Nothing here is a measurement: where brokers do as they should, nobody waits for longer than they take. On a machine at
a quarter of its speed elections, fetches and starts take four times as long and more, and that is no failure.
"""

import time
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

T = TypeVar("T")

PATIENCE_S: Final = 180.0
"""For an answer, an election, a start, a replica that catches up."""
PASSING: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        KafkaError._NOENT,  # DeleteRecords where the client has not heard of the leader yet.
    }
)
"""Refusals of a cluster that is busy with itself: who asks again is answered."""


def wait_until(condition: Callable[[], T | None], *, what: str, timeout_s: float = PATIENCE_S) -> T:
    """Asks until the answer is true, and returns it; an error after the time is over."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}")
        time.sleep(0.1)
    return answer


def until_taken(ask: Callable[[], object], *, already: Collection[int] = (), timeout_s: float = PATIENCE_S) -> None:
    """Asks until the cluster does not pass the request up; the last refusal after the time is over.

    A request of which the answer got lost may have been done: `already` are the refusals by which its repetition tells.
    """
    deadline = time.monotonic() + timeout_s
    repeated = False
    while True:
        try:
            ask()
        except KafkaException as error:
            code = error.args[0].code()
            if repeated and code in already:
                return
            if code not in PASSING or time.monotonic() > deadline:
                raise
        except TimeoutError:  # of a future
            if time.monotonic() > deadline:
                raise
        else:
            return
        repeated = True
        time.sleep(0.2)
