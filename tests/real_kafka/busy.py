"""The topics of a busy cluster: each says what is done to it, and how many copies of a record were promised.

Data, and nothing else. Whatever Kafka promises of a record (acks, min.insync.replicas, retention, compaction) is
written here, so that the ledger can be held against a copy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SMALL: Final = {"internal.segment.bytes": "65536", "segment.index.bytes": "8192", "file.delete.delay.ms": "1000"}
TINY: Final = {**SMALL, "internal.segment.bytes": "16384", "segment.index.bytes": "4096"}
_COMPACT: Final = {
    **SMALL,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.05",
    "segment.ms": "4000",
    "delete.retention.ms": "3000",
}
_ONE_IS_ENOUGH: Final = {"min.insync.replicas": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as it is created. `copies`: of an acknowledged record at any moment; 0 where nothing was promised."""

    partitions: int = 1
    replication_factor: int = 3
    config: Mapping[str, str] = field(default_factory=dict)
    copies: int = 2

    @property
    def is_compacted(self) -> bool:
        """Whether a newer record of its key may take a record's place."""
        return "compact" in self.config.get("cleanup.policy", "")


TOPICS: Final = {
    "plain": Topic(partitions=3),
    "idempotent": Topic(partitions=3, config=SMALL),
    "appended": Topic(config={"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"}),
    "transactions": Topic(partitions=2, config=SMALL),
    "copied": Topic(partitions=2, config=SMALL),
    "retained": Topic(partitions=2, config={**TINY, "retention.bytes": "60000"}),
    "aged": Topic(config={**TINY, "retention.ms": "6000", "segment.ms": "2000"}),
    "deleted-records": Topic(partitions=2, config=SMALL),
    "compacted": Topic(partitions=2, config=_COMPACT),
    "compacted-transactions": Topic(config=_COMPACT),
    "compacted-aged": Topic(config={**_COMPACT, "cleanup.policy": "compact,delete", "retention.ms": "10000"}),
    "hasty": Topic(partitions=2, config=_ONE_IS_ENOUGH, copies=0),
    "lenient": Topic(partitions=2, config={**TINY, **_ONE_IS_ENOUGH}, copies=1),
    "pair": Topic(replication_factor=2, config=_ONE_IS_ENOUGH, copies=1),
    "alone": Topic(partitions=3, replication_factor=1, config=_ONE_IS_ENOUGH, copies=1),
    "growing": Topic(),
    "wavering": Topic(config={**_COMPACT, "cleanup.policy": "delete"}),
    "few": Topic(partitions=2),
    "idle": Topic(partitions=3),
}
"""`hasty` is written with acks=1; `copied` by whoever reads `idempotent`, transactionally; `growing` gets partitions;
`wavering` is compacted now and then."""
GROWING: Final = "growing"
SHRINKING: Final = frozenset(
    name
    for name, topic in TOPICS.items()
    if topic.is_compacted or topic.config.keys() & {"retention.ms", "retention.bytes"}
)
"""Topics of which segments are deleted under way."""
COMPACTED: Final = frozenset({*(name for name, topic in TOPICS.items() if topic.is_compacted), "wavering"})
COPIES: Final = {name: topic.copies for name, topic in TOPICS.items()}
BROKERS: Final = {
    "log.cleaner.backoff.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "3000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
"""Settings of the brokers that keep their own housekeeping as busy as the clients are."""
