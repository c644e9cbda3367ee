"""When a broker forgets an idle producer: producer.id.expiration.ms, as far as anything tells it.

In: the setting's course. Out: `Expiration`, which says of an idle producer whether its state may have been gone. The
setting may stand in the brokers' properties, which no file of a log directory repeats; Kafka's default is no evidence
of what it was, but for producers that even the default would have let go.

Source: ProducerStateManager#isProducerExpired, DynamicProducerStateManagerConfig.
"""

from dataclasses import dataclass
from typing import Final

from tidegauge.facts.metadata.config_history import SettingCourse, Since

PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""Kafka's default: an idle producer's state is forgotten after it."""
SOONEST_EXPIRATION_MS: Final = 10_000
"""A producer idle for less than this was not expired, whatever the setting is on the broker."""
CHECK_INTERVAL_MS: Final = 600_000
"""How often brokers look for expired producers (producer.id.expiration.check.interval.ms): one that idled for less was
forgotten only where a setting shorter than this, as nobody has it, met such a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """A while in which a producer wrote nothing: since its batch of then, and for how long."""

    since_ms: int
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiration:
    """What is known of the setting: that it always was `milliseconds`, or its `course`; or, without both, nothing."""

    milliseconds: int | None = None
    course: SettingCourse | None = None

    def least_since(self, at_ms: int) -> int | None:
        """The smallest value that was in force at some time since then; None if any of them is not known."""
        if self.course is None:
            return self.milliseconds
        since = Since(at_ms=at_ms)
        if not self.course.known(since):
            return None
        return min((n for n in self.course.numbers(since) if n >= 0), default=None)

    def may_be_over(self, *, written_at_ms: int, idle_ms: int) -> bool | None:
        """Whether a producer may have been forgotten that wrote then, and for so long no more; None: nothing tells."""
        if idle_ms < SOONEST_EXPIRATION_MS:
            return False
        least = self.least_since(written_at_ms)
        if least is None:
            return True if idle_ms >= PRODUCER_EXPIRATION_MS else None
        return idle_ms >= least


DEFAULT_EXPIRATION: Final = Expiration(milliseconds=PRODUCER_EXPIRATION_MS)
UNKNOWN_EXPIRATION: Final = Expiration()
