"""What breaches point to: the causes there are, and the rules by which a breach leads to one. Data, no behaviour.

In: nothing. Out: `CAUSES`, `RULES`, `DEFAULTS`, read by `diagnosis.diagnose`. The rule that must hold: the first rule
whose conditions are met speaks; where none is, the code's default does. A rule never turns a breach into none.

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
    """The follower: it holds what the leader lacks, and that was declared committed."""
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
    """Breaches of these codes point to this cause if all conditions are met."""

    codes: tuple[str, ...]
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

_UNCLEAN: Final = ("K07", "D18")

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        codes=("A03",),
        on="one",
        points_to="bit_rot",
        because="Only this replica has it; the others hold these offsets under right checksums. Delete this replica's "
        "directory while its broker is down: it is copied anew.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("A01", "C02"),
        on="one",
        along=("A03",),
        points_to="bit_rot",
        because="Only this replica has it, and a wrong checksum beside it.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("A01", "C02"),
        on="one",
        points_to="torn_write",
        because="Only this replica has it; the others hold these offsets in whole batches.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("D02", "D03", "D07"),
        along=("A03",),
        points_to="bit_rot",
        because="One of the two replicas has a wrong checksum there: it is the one that changed.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("D01", "B14"),
        on="all",
        without=("D02", "D03", "D07"),
        points_to="leader_epoch_wrong",
        because="Every captured replica has the same, and their records are equal: the epoch was wrong when the leader "
        "wrote it.",
    ),
    Rule(
        codes=("D01", "B14", "A09"),
        on="one",
        points_to="header_rot",
        because="Only this replica has it: the leader epoch lies outside of the checksum, and changed on its disk.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("D02", "D03", "D07"),
        along=("D01", "B14"),
        without=("A03",),
        points_to="header_rot",
        because="The leader epochs of one replica contradict its own log: what differs is a header outside of the "
        "checksum.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("D03",),
        points_to="two_writers",
        because="Both checksums are right, and the leader epoch is the same: nothing in the files says which is true. "
        "Escalate before any of the two is deleted.",
        believe=Believe.MAJORITY,
    ),
    Rule(
        codes=("D02",),
        less=(("divergence_offset", "first_differing_committed_offset"),),
        points_to="untruncated_divergence",
        because="By their epochs the replicas part below the first difference: a truncation was due and was not made.",
        believe=Believe.LEADER,
    ),
    Rule(
        codes=("D02", "D07"),
        points_to="equal_lineage_other_bytes",
        because="By their epochs the replicas are one up to there, so no truncation will ever repair it.",
        believe=Believe.MAJORITY,
    ),
    Rule(
        codes=("E01", "E02", "E04", "E05"),
        on="all",
        points_to="producer_bug",
        because="Every captured replica has the same: it was so when the leader appended it.",
    ),
    Rule(
        codes=("E01", "E02"),
        on="one",
        points_to="lost_batch",
        because="Only this replica has it: the batch was written, and this copy lost it.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("A13", "A04", "A12"),
        on="one",
        points_to="lost_batch",
        because="Only this replica has it; the others hold these offsets in order.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("D06", "D05", "D11", "J01", "J02", "C07", "C08", "C10", "C11"),
        known=("unclean_election_offset",),
        points_to="unclean_loss",
        because="The metadata log has the unclean election that did it.",
        believe=Believe.HOLDER,
    ),
    Rule(
        codes=("C07", "C08", "C10", "C11", "D10", "D11", "D12", "D19", "J01", "J02"),
        along=_UNCLEAN,
        points_to="unclean_loss",
        because="The metadata log has an unclean election of this partition.",
        believe=Believe.NOBODY,
    ),
    Rule(
        codes=("C07", "C08", "C10", "C11", "D10", "B16", "B17"),
        true=("directory_replaced",),
        points_to="stale_disk",
        because="The log dir has another directory id than before: the disk was replaced.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("C07", "C08", "C10", "C11", "D06", "D10", "D11", "D12", "D14", "B16", "B17"),
        along=("K11", "B21", "A18"),
        without=_UNCLEAN,
        points_to="stale_disk",
        because="No unclean election is on record, and the broker's registration or clean-stop marker is of another "
        "moment than its log.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("D06",),
        points_to="lost_flush",
        because="No unclean election is on record, and the leader lacks what was declared committed: its log lost its "
        "tail.",
        believe=Believe.HOLDER,
    ),
    Rule(
        codes=("B16", "B17", "B18", "C01", "C07", "C08", "C10", "C11", "D10", "D11", "D12"),
        points_to="lost_flush",
        because="No unclean election is on record: the log is shorter than what the broker had written down of it.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("D18", "K07", "K08"),
        points_to="unclean_loss",
        because="The controller made a replica leader that was not in sync.",
        believe=Believe.NOBODY,
    ),
    Rule(
        codes=("F12", "F08", "G09"),
        along=("F10",),
        points_to="lost_marker",
        because="The coordinator has ended the transaction, and its marker is not on this partition.",
    ),
    Rule(
        codes=("F12", "F08", "G09"),
        along=("F09",),
        points_to="write_outside_transaction",
        because="The coordinator never added this partition to the transaction.",
    ),
    Rule(
        codes=("F12", "G09"),
        along=("F08",),
        points_to="hanging_transaction",
        because="A transaction that nobody will end holds the last stable offset.",
    ),
    Rule(
        codes=("B22", "A18", "E07", "D14"),
        points_to="foreign_disk",
        because="The identity that the files bear is not the one that the cluster gave out.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("B21", "K11"),
        points_to="stale_disk",
        because="The broker's own word about its last registration is older than the metadata log's.",
        believe=Believe.OTHERS,
    ),
)

_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType({
    "bit_rot": "A03",
    "header_rot": "A09 B14",
    "torn_write": "A01 B05 B08 B12 C02",
    "lost_flush": "A16 B09 B16 B17 B18 C01 C07 C08 C10 C11 D06 D10 D11 D12 D19 D20 J02",
    "unclean_loss": "D18 K07 K08",
    "stale_disk": "A18 B21 K11",
    "foreign_disk": "B22 D14 E07 K12",
    "two_writers": "D03 D15",
    "leader_epoch_wrong": "D01",
    "untruncated_divergence": "D02 D04",
    "equal_lineage_other_bytes": "D07",
    "lost_batch": "A13",
    "uncommitted_tail": "D05 D08",
    "failover": "D09",
    "producer_bug": "E01 E02 E03 E04 E05 E06 F01",
    "client_behaviour": "E08 F13 J03 J04",
    "wrong_writer": "A02 A05 A06 A07 A08",
    "coordinator_bug": "F02 F03 F04 F05 F06 F07 F11 F14 F15 J05 J06 J07 J08 J09",
    "hanging_transaction": "F08 F12",
    "lost_marker": "F10",
    "write_outside_transaction": "F09",
    "controller_bug": "K01 K02 K03 K04 K05 K06 K09 K13 K14 K15 K16 K17 K19 K20",
    "cleaner_bug": "A11 B19 G01 G02 G03 G05 G06 G07 G08 G09",
    "retention": "C04 C05 C06 C09 J01",
    "remote_tier": "H01 H02 H03 H04 H05 H06 H07",
    "interrupted_cleanup": "A14 A15 A17 B10 D17",
    "derived_file": "B01 B02 B03 B04 B06 B07 B11 B15 C03 D13 D16",
    "restored_files": "A04 A12 B13 B20",
    "configuration": "A10 A19 G04 K18",
    "broker_down": "K10",
    "answered_otherwise": "L01 L02 L03 L04 L05 L06 L07 L08 L09 L10 L11 L12",
})  # fmt: skip

DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {code: cause for cause, codes in _DEFAULTS.items() for code in codes.split()}
)
"""Code -> the cause it points to where no rule says more."""
