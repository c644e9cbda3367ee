"""What a member of an ISR or ELR lacks of what is known to be committed.

In: the columns of `isr_members`. What any replica knows to be committed, every member holds, the leader and a member
whose directory is gone not excepted.
"""

from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Unknown
from tidegauge.expectations.prose import line

SHORT: Final = "follower_log_end_offset < known_high_watermark"
GONE: Final = "NOT present AND known_high_watermark > coalesce(log_start_offset, 0)"
"""It has no log, and there is something that it ought to hold."""
NOT_AT_HAND: Final = (
    Unknown(reason="broker not captured", evidence=Evidence.BROKER, when="NOT captured"),
    Unknown(reason="replica not in the copy", evidence=Evidence.REPLICA, when=f"{GONE} AND log_dir_missing"),
    Unknown(
        reason="a segment could not be read",
        evidence=Evidence.SEGMENT,
        when="present AND follower_log_end_offset IS NULL",
    ),
)
KNOWN_ELSEWHERE: Final = (
    "elsewhere",
    "CASE WHEN known_high_watermark_broker NOT IN (leader_id, follower_id) THEN known_high_watermark_broker END",
)
NO_LOG: Final = ("no_log", "CASE WHEN NOT present THEN 'no log' END")
MISSING: Final = (
    "missing",
    line(f"""
        CASE WHEN {SHORT} THEN known_high_watermark - follower_log_end_offset
        WHEN {GONE} THEN known_high_watermark - coalesce(log_start_offset, 0) END
    """),
)
EVIDENCE: Final = (
    "known_high_watermark",
    "known_high_watermark_broker",
    "leader_high_watermark",
    "present",
    "follower_log_end_offset",
    "first_differing_offset",
    "follower_clean_shutdown",
    "follower_alive",
    "elections_on_record",
)
