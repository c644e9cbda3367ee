"""Which breaches point to which cause. Data, no behaviour.

In: the causes there are. Out: `RULES`, `DEFAULTS`, read by `diagnosis.diagnose`. The rule that must hold: the first
rule whose conditions are met speaks; where none is, the code's default does.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from expectations.causes import Believe, Rule

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
        because="By what Kafka compares (leader epochs; without any, the high watermark) the replicas are one up to "
        "there, so no truncation will ever repair it.",
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
        codes=("A11",),
        less=(("first_offset", "base_offset"),),
        on="one",
        points_to="header_rot",
        because="Only this replica has it: a base offset lies outside of the checksum, and changed on its disk.",
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
        true=("elections_on_record",),
        points_to="stale_disk",
        because="No unclean election is on record, and the broker's registration or clean-stop marker is of another "
        "moment than its log.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("D05",),
        known=("commitment_lacks",),
        points_to="open_tail",
        because="What would tell whether these records were committed is not in the copy.",
    ),
    Rule(
        codes=("D06",),
        true=("elections_on_record",),
        points_to="lost_flush",
        because="No unclean election is on record, and the leader lacks what was declared committed: its log lost its "
        "tail.",
        believe=Believe.HOLDER,
    ),
    Rule(
        codes=("D06",),
        points_to="cut_or_lost",
        because="The leader lacks what was declared committed, and not every election since is on record.",
        believe=Believe.HOLDER,
    ),
    Rule(
        codes=("B16", "B17", "B18", "C01", "C07", "C08", "C10", "C11", "D10", "D11", "D12", "J02"),
        true=("elections_on_record",),
        points_to="lost_flush",
        because="No unclean election is on record: the log is shorter than what had been written down of it.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("B16", "B17", "B18", "C01", "C07", "C08", "C10", "C11", "D10", "D11", "D12", "J02"),
        points_to="cut_or_lost",
        because="The log is shorter than what had been written down of it, and not every election since is on record.",
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
        codes=("B22",),
        true=("own_disk",),
        points_to="restored_files",
        because="The directory id, where one can be read, is the broker's own, and so is the disk: it is the file that "
        "was edited or damaged.",
    ),
    Rule(
        codes=("B22", "A18", "E07", "D14"),
        points_to="foreign_disk",
        because="The identity that the files bear is not the one that the cluster gave out.",
        believe=Believe.OTHERS,
    ),
    Rule(
        codes=("D17",),
        known=("offline",),
        missing=("missing", "stray"),
        points_to="failed_disk",
        because="The broker has no longer registered the log dir that these replicas are assigned to: nothing was "
        "interrupted, they went with it.",
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
    "lost_flush": "A16 B09 B16 B17 B18 C01 C07 C08 C10 C11 D06 D10 D11 D12 J02",
    "cut_or_lost": "D19 D20",
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
    "restored_files": "A04 A12 B13 B20 B23",
    "configuration": "A10 A19 G04 K18",
    "broker_down": "K10",
    "answered_otherwise": "L01 L02 L03 L04 L05 L06 L07 L08 L09 L10 L11",
})  # fmt: skip

DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {code: cause for cause, codes in _DEFAULTS.items() for code in codes.split()}
)
"""Code -> the cause it points to where no rule says more."""
