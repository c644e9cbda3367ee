from typing import Final

from tidegauge.expectations.evidence import Evidence
from tidegauge.expectations.model import Invariant, Severity, Unknown
from tidegauge.expectations.prose import line, lines

_QUORUM: Final = "bin/kafka-metadata-quorum.sh --bootstrap-server <host:port> describe --replication"
_SOMETHING_TO_COMPARE: Final = "coalesce(incomparable_reason, '') NOT IN ('no batches', 'no common range')"

INVARIANT = Invariant(
    code="K15",
    key="METADATA_LOG_MATCHING",
    name="MetadataLogsMatch",
    severity=Severity.CRITICAL,
    relation="divergences",
    statement=line("""
        Two nodes' metadata logs hold the same records wherever both hold an offset of one epoch, and below whatever a
        metadata snapshot covers.
    """),
    because=line("""
        Every node builds the cluster from its own copy. Copies that differ below the quorum's high watermark are two
        clusters in one: two leaders of a partition, each of them right by its own log.
    """),
    applies_when=f"topic = '__cluster_metadata' AND {_SOMETHING_TO_COMPARE}",
    unknown=(
        Unknown(reason="not comparable", evidence=None, when="NOT comparable AND first_differing_offset IS NULL"),
        Unknown(
            reason="high watermark not known",
            evidence=Evidence.CHECKPOINT,
            # The tail of an old leader that no majority had: it goes when the node rejoins.
            when=line("""
                identity_violation_offset IS NULL AND first_differing_undiverged_offset IS NULL
                AND first_differing_offset IS NOT NULL
                AND coalesce(first_differing_offset >= metadata_committed_end_offset, true)
            """),
        ),
    ),
    breach_when=line("""
        identity_violation_offset IS NOT NULL OR first_differing_undiverged_offset IS NOT NULL
        OR coalesce(first_differing_offset < metadata_committed_end_offset, false)
    """),
    derived=(
        ("same_epoch", "identity_violation_offset"),
        (
            "committed",
            "CASE WHEN first_differing_offset < metadata_committed_end_offset THEN metadata_committed_end_offset END",
        ),
    ),
    evidence=(
        "first_differing_offset",
        "identity_violation_offset",
        "divergence_offset",
        "metadata_committed_end_offset",
        "leader_log_end_offset",
        "follower_log_end_offset",
        "leader_segment",
        "follower_segment",
    ),
    explanation=lines("""
        The metadata logs of nodes {leader_id} and {follower_id} differ from offset {first_differing_offset} on.
        At offset {same_epoch} both hold a batch of one leader epoch, and not the same one.
        Everything below {committed} is in a metadata snapshot, so it was committed.
        The first difference lies in __cluster_metadata-0/{leader_segment} of node {leader_id}, and in
          __cluster_metadata-0/{follower_segment} of node {follower_id}.
    """),
    details=("differing_batches",),
    start_offset="first_differing_offset",
    next=_QUORUM,
    implies=("D02", "D03", "D05", "D06", "D07", "K03", "K16", "K20"),
    points_to="controller_bug",
    reference="KafkaRaftClient; the property MetadataLogMatching of the quorum's TLA+ model; KIP-595",
)
