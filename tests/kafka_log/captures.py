"""The golden captures by name: `tests/golden/README.md` says what happened to each."""

CAPTURES = [
    "healthy",
    "epochs",
    "unclean-before",
    "hanging-txn",
    "pair-clean-b1",
    "pair-clean-b2",
    "soak-01",
    "tiered",
    "kafka-4.1",
    "kafka-3.9",
]
OLD_FORMATS = ["format-1", "format-1-unclean", "format-upgraded"]
"""Clusters with a ZooKeeper: no metadata log is in them."""
ZOOKEEPER = ["zookeeper", "zookeeper-unclean"]
"""The same, of today's message format."""
LIVES = [
    "controllers",
    "quorum-changed",
    "quorum-changed-unclean",
    "one-controller",
    "one-controller-unclean",
    "one-controller-rejoined",
    "forgotten",
    "forgotten-unclean",
    "racks",
    "racks-unclean",
    "failed-disk",
    "failed-disk-unclean",
    "deaf-unclean",
    "streams",
    "streams-unclean",
    "mirror",
    "mirror-unclean",
    "shares",
    "shares-unclean",
    "migrating",
    "migrated",
    "migrated-unclean",
]
"""Clusters of other topologies and other clients, and of every version from 4.0 on (`tests/real_kafka/lives`)."""
