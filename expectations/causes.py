"""What breaches point to: the causes there are, and how a rule leads to one. Data, no behaviour.

In: nothing. Out: `CAUSES`, and `Rule`, of which each invariant has its own list. The rule that must hold: a rule never
turns a breach into none.

A rule asks what one breach alone cannot tell: whether the other replicas have the same, what else is breached at the
place, what the evidence knows. Only then is it said which replicas to believe.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal


class Believe(StrEnum):
    """Which replicas of the partition to believe."""

    OTHERS = "others"
    """Captured replicas of which nobody says the same at the same offsets."""
    MAJORITY = "majority"
    """Of two that differ, the side that more replicas are on; nobody where it is one against one."""
    HOLDER = "holder"
    """The follower, and others like it: they hold what the leader lacks, and that was declared committed."""
    LEADER = "leader"
    """The replica that the others are compared with."""
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Something that goes wrong outside of the files, and leaves breaches in them."""

    key: str
    """The word in `points_to`."""
    title: str
    statement: str
    """What happened, one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A breach points to this cause if all conditions are met."""

    points_to: str
    because: str
    """The sentence of the argument."""
    believe: Believe = Believe.NOBODY
    on: Literal["any", "one", "all"] = "any"
    """Of the partition's captured replicas (two at least), how many have the same breach at the same offsets."""
    along: tuple[str, ...] = ()
    """One of these is breached on the same partition."""
    without: tuple[str, ...] = ()
    """None of these is breached on the same partition."""
    known: tuple[str, ...] = ()
    """Evidence that is there."""
    missing: tuple[str, ...] = ()
    """Evidence that is null."""
    true: tuple[str, ...] = ()
    """Evidence that is true."""
    less: tuple[tuple[str, str], ...] = ()
    """Pairs of evidence, the first less than the second."""


CAUSES: Final[Mapping[str, Cause]] = MappingProxyType({
    c.key: c
    for c in (
        Cause(
            key="bit_rot",
            title="bit rot",
            statement="Bytes on one disk changed by themselves after they were written.",
        ),
        Cause(
            key="header_rot",
            title="header rot",
            statement="A batch header changed on one disk in the bytes that its checksum does not cover.",
        ),
        Cause(
            key="torn_write",
            title="a torn write",
            statement="A broker or its machine stopped in the middle of a write, or the file was copied then.",
        ),
        Cause(
            key="lost_flush",
            title="a lost flush",
            statement="A log lost its tail with the page cache: power went, or a disk lied about what it had written.",
        ),
        Cause(
            key="unclean_loss",
            title="an unclean election",
            statement="A replica that was not in sync was made leader, and what it lacks is cut from the others.",
        ),
        Cause(
            key="cut_or_lost",
            title="an unclean election, a lost flush or a stale disk",
            statement="Not every election is on record, so each of the three may have done it.",
        ),
        Cause(
            key="stale_disk",
            title="a stale disk",
            statement="A broker came back with an earlier state of its disk, or with an empty one.",
        ),
        Cause(
            key="foreign_disk",
            title="a foreign disk",
            statement="Files of another cluster, another broker or another life of the topic lie in this log dir.",
        ),
        Cause(
            key="two_writers",
            title="two writers in one leader epoch",
            statement="Two brokers appended under one leader epoch, or a leader's memory changed a batch before "
            "it was checksummed.",
        ),
        Cause(
            key="leader_epoch_wrong",
            title="a wrong leader epoch at the leader",
            statement="The leader stamped batches with an epoch that was not its own; every replica copied them.",
        ),
        Cause(
            key="untruncated_divergence",
            title="a divergence that was not truncated",
            statement="Replicas took different records at the same offsets, and the truncation that was due "
            "stopped short or did not run.",
        ),
        Cause(
            key="equal_lineage_other_bytes",
            title="other bytes under the same epochs",
            statement="The epochs of two replicas agree, so Kafka will never cut either, and their records differ.",
        ),
        Cause(
            key="lost_batch",
            title="a lost batch",
            statement="Records were in the log and are missing from the middle of it.",
        ),
        Cause(
            key="uncommitted_tail",
            title="an uncommitted tail",
            statement="A replica holds records that were not committed when leadership moved; Kafka truncates them.",
        ),
        Cause(
            key="open_tail",
            title="a tail that may have been committed",
            statement="A replica holds records that Kafka truncates, and nothing in the copy tells whether they were "
            "committed.",
        ),
        Cause(
            key="failover",
            title="a failover",
            statement="Leadership moved, and the new leader does not know yet what the old one knew.",
        ),
        Cause(
            key="producer_bug",
            title="a producer",
            statement="A client skipped, repeated or reordered what it sent, or a broker took what it should "
            "have refused.",
        ),
        Cause(
            key="client_behaviour",
            title="how clients are used",
            statement="Applications do something that Kafka allows and that costs them.",
        ),
        Cause(
            key="wrong_writer",
            title="a writer that is no current broker",
            statement="The bytes are whole, and no broker of today's format writes them so.",
        ),
        Cause(
            key="coordinator_bug",
            title="a coordinator",
            statement="A group, share or transaction coordinator wrote what its protocol does not allow, or two "
            "of them were at work.",
        ),
        Cause(
            key="hanging_transaction",
            title="a hanging transaction",
            statement="A transaction is open that no coordinator will end.",
        ),
        Cause(
            key="lost_marker",
            title="a lost marker",
            statement="A transaction was ended, and its marker is missing from a partition.",
        ),
        Cause(
            key="write_outside_transaction",
            title="a write outside a transaction",
            statement="Transactional records were appended to a partition that their coordinator never added.",
        ),
        Cause(
            key="controller_bug",
            title="the controller",
            statement="The metadata log says what the controller's own rules forbid, or its copies differ.",
        ),
        Cause(
            key="cleaner_bug",
            title="the log cleaner",
            statement="Compaction removed, kept or merged what it should not have.",
        ),
        Cause(
            key="retention",
            title="retention",
            statement="Old records were deleted too early, too late, or are there again.",
        ),
        Cause(
            key="remote_tier",
            title="the remote tier",
            statement="What was copied to the remote tier, or deleted from it, does not fit the log.",
        ),
        Cause(
            key="interrupted_cleanup",
            title="an interrupted clean-up",
            statement="A broker stopped, or failed, while it moved, swapped or deleted files.",
        ),
        Cause(
            key="failed_disk",
            title="a disk that failed",
            statement="A log dir went offline, or was taken out of its broker's configuration, with all replicas on "
            "it.",
        ),
        Cause(
            key="derived_file",
            title="a stale derived file",
            statement="An index, snapshot or checkpoint no longer says what its log says; it can be rebuilt.",
        ),
        Cause(
            key="restored_files",
            title="files put there by hand",
            statement="Files were restored, copied or edited without the others that belong to them.",
        ),
        Cause(
            key="configuration",
            title="configuration or a clock",
            statement="A setting was changed, or a machine's clock was wrong.",
        ),
        Cause(
            key="broker_down",
            title="brokers that are away",
            statement="Too few of the partition's brokers are up and in sync.",
        ),
        Cause(
            key="answered_otherwise",
            title="another answer than the files give",
            statement="The running cluster answered something else than its own files say.",
        ),
    )
})  # fmt: skip
