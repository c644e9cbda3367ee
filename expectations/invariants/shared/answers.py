"""What the cluster answered, against what its files say.

In: the columns of `cluster_answers`. A live cluster moves on, so an offset by the files must lie between the answers
before and after the copy, and a value must be one that was in force between them. What changed in between is unknown,
unless the files agree with the answers all the same.
"""

from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Unknown
from tidegauge.expectations.prose import line

OUTSIDE: Final = "(answered_before > recomputed_highest OR answered_after < recomputed_lowest)"
OTHER_VALUE: Final = line("""
    CASE WHEN coalesce(answered_before_text, answered_after_text) IS NULL THEN NULL
    ELSE (answered_before_text IS NOT NULL AND NOT answered_before_text = ANY(recomputed_values))
    OR (answered_after_text IS NOT NULL AND NOT answered_after_text = ANY(recomputed_values)) END
""")
Reasons = dict[str, Evidence | None]
"""Reason -> the piece of evidence that would decide, if any would."""
LEADERSHIP: Final[Reasons] = {
    "leader or ISR changed": None,
    "topic re-created": None,
    "leader not captured": Evidence.BROKER,
    "copy older than answer": Evidence.ONE_MOMENT,
    "answered before the copy ended": Evidence.ONE_MOMENT,
    "no answer": Evidence.ANSWERS,
}
NO_COORDINATOR: Final[Reasons] = {
    "coordinator not captured": Evidence.COORDINATOR_LOG,
    "leader or ISR changed": None,
    "records unreadable": None,
    "asked once": Evidence.ANSWERS,
}


def unless_sound(breach_when: str, reasons: Reasons) -> tuple[Unknown, ...]:
    """Each reason, for the rows that would or might be breached but for it."""
    return tuple(
        Unknown(
            reason=reason, evidence=evidence, when=f"incomparable_reason = '{reason}' AND ({breach_when}) IS NOT FALSE"
        )
        for reason, evidence in reasons.items()
    )
