"""How an election that may have given records up is told, wherever it explains what is gone.

In: the columns `unclean_election_offset`, `unclean_election_at_ms`, `isr_before_election`. Out: derived values and
sentences. Where nobody was in sync any more, who led last may have been elected again, so it is not called another
broker.
"""

from typing import Final

from tidegauge.expectations.prose import line

IN_SYNC_THEN: Final = (
    ("isr_then", "CASE WHEN cardinality(isr_before_election) > 0 THEN isr_before_election END"),
    ("in_sync_then", "CASE WHEN cardinality(isr_before_election) = 0 THEN 'nobody' END"),
)
GIVEN_UP_BY: Final = (
    line("""
        Election: offset {unclean_election_offset} of the metadata log ({unclean_election_at_ms}) made another broker
        leader while ISR was {isr_then}: unclean.
    """),
    line("""
        Election: offset {unclean_election_offset} of the metadata log ({unclean_election_at_ms}) made a broker leader
        when {in_sync_then} was in sync: it need not hold all that was committed.
    """),
)
NOT_ALL_ON_RECORD: Final = line("""
    Of the elections since, {not_on_record} one is on record: an unclean election may have done it, a log that lost its
    tail, or a disk of an earlier moment.
""")
