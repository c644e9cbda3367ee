"""What a breach points to, where the evidence or what else is breached says more than its kind.

In: the causes there are. Out: `Rule`s, for `Invariant.diagnosis`. Who names one quotes the evidence that it asks for.
"""

from typing import Final

from tidegauge.expectations.causes import Believe, Rule
from tidegauge.expectations.prose import line

_UNCLEAN: Final = ("K07", "D18")
ROTTED_TOO: Final = Rule(
    on="one",
    along=("A03",),
    points_to="bit_rot",
    because="Only this replica has it, and a wrong checksum beside it.",
    believe=Believe.OTHERS,
)
TORN_ALONE: Final = Rule(
    on="one",
    points_to="torn_write",
    because="Only this replica has it; the others hold these offsets in whole batches.",
    believe=Believe.OTHERS,
)
ONE_OF_TWO_ROTTED: Final = Rule(
    along=("A03",),
    points_to="bit_rot",
    because="One of the two replicas has a wrong checksum there: it is the one that changed.",
    believe=Believe.OTHERS,
)
WRONG_AT_THE_LEADER: Final = Rule(
    on="all",
    without=("D02", "D03", "D07"),
    points_to="leader_epoch_wrong",
    because=line("""
        Every captured replica has the same, and their records are equal: the epoch was wrong when the leader wrote it.
    """),
)
HEADER_ROTTED_ALONE: Final = Rule(
    on="one",
    points_to="header_rot",
    because="Only this replica has it: the leader epoch lies outside of the checksum, and changed on its disk.",
    believe=Believe.OTHERS,
)
HEADER_OF_ONE_ROTTED: Final = Rule(
    along=("D01", "B14"),
    without=("A03",),
    points_to="header_rot",
    because=line("""
        The leader epochs of one replica contradict its own log: what differs is a header outside of the checksum.
    """),
    believe=Believe.OTHERS,
)
NO_TRUNCATION_REPAIRS_IT: Final = Rule(
    points_to="equal_lineage_other_bytes",
    because=line("""
        By what Kafka compares (leader epochs; without any, the high watermark) the replicas are one up to there, so no
        truncation will ever repair it.
    """),
    believe=Believe.MAJORITY,
)
SAME_ON_ALL: Final = Rule(
    on="all",
    points_to="producer_bug",
    because="Every captured replica has the same: it was so when the leader appended it.",
)
BATCH_LOST_ALONE: Final = Rule(
    on="one",
    points_to="lost_batch",
    because="Only this replica has it: the batch was written, and this copy lost it.",
    believe=Believe.OTHERS,
)
OFFSETS_LOST_ALONE: Final = Rule(
    on="one",
    points_to="lost_batch",
    because="Only this replica has it; the others hold these offsets in order.",
    believe=Believe.OTHERS,
)
UNCLEAN_ELECTION_NAMED: Final = Rule(
    known=("unclean_election_offset",),
    points_to="unclean_loss",
    because="The metadata log has the unclean election that did it.",
    believe=Believe.HOLDER,
)
UNCLEAN_ELECTION_BESIDE: Final = Rule(
    along=_UNCLEAN,
    points_to="unclean_loss",
    because="The metadata log has an unclean election of this partition.",
)
DISK_REPLACED: Final = Rule(
    true=("directory_replaced",),
    points_to="stale_disk",
    because="The log dir has another directory id than before: the disk was replaced.",
    believe=Believe.OTHERS,
)
DISK_OF_ANOTHER_MOMENT: Final = Rule(
    along=("K11", "B21", "A18"),
    without=_UNCLEAN,
    true=("elections_on_record",),
    points_to="stale_disk",
    because=line("""
        No unclean election is on record, and the broker's registration or clean-stop marker is of another moment than
        its log.
    """),
    believe=Believe.OTHERS,
)
LOST_ITS_TAIL: Final = Rule(
    true=("elections_on_record",),
    points_to="lost_flush",
    because="No unclean election is on record: the log is shorter than what had been written down of it.",
    believe=Believe.OTHERS,
)
CUT_OR_LOST: Final = Rule(
    points_to="cut_or_lost",
    because="The log is shorter than what had been written down of it, and not every election since is on record.",
    believe=Believe.OTHERS,
)
OUT_OF_SYNC_ELECTED: Final = Rule(
    points_to="unclean_loss",
    because="The controller made a replica leader that was not in sync.",
)
MARKER_LOST: Final = Rule(
    along=("F10",),
    points_to="lost_marker",
    because="The coordinator has ended the transaction, and its marker is not on this partition.",
)
PARTITION_NEVER_ADDED: Final = Rule(
    along=("F09",),
    points_to="write_outside_transaction",
    because="The coordinator never added this partition to the transaction.",
)
NOBODY_ENDS_IT: Final = Rule(
    along=("F08",),
    points_to="hanging_transaction",
    because="A transaction that nobody will end holds the last stable offset.",
)
IDENTITY_OF_ANOTHER: Final = Rule(
    points_to="foreign_disk",
    because="The identity in the files is not the one that the cluster gave out.",
    believe=Believe.OTHERS,
)
WORD_OF_ITS_BROKER_IS_OLDER: Final = Rule(
    points_to="stale_disk",
    because="The broker's own word about its last registration is older than the metadata log's.",
    believe=Believe.OTHERS,
)
