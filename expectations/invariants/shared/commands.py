"""Commands that breaches end with.

In: the columns that name their subjects. Out: templates for `Invariant.next`.
"""

from typing import Final

from tidegauge.expectations.prose import line

DUMP_TRANSACTION_LOG: Final = (
    "bin/kafka-dump-log.sh --transaction-log-decoder --files {topic}-{partition}/00000000000000000000.log"
)
DUMP_OFFSETS_LOG: Final = "bin/kafka-dump-log.sh --offsets-decoder --files {topic}-{partition}/00000000000000000000.log"
SALVAGE_FROM_DIVERGENCE: Final = line("""
    tidegauge salvage <snapshot> --topic {topic} --partition {partition} --from {divergence_offset} --out salvaged
""")
DESCRIBE_TOPIC: Final = "bin/kafka-topics.sh --bootstrap-server <host:port> --describe --topic {topic}"
SALVAGE_FROM_EARLIER: Final = line("""
    tidegauge salvage <snapshot {previous_snapshot_id}> --topic {topic} --partition {partition} --from {from_offset}
    --to {to_offset} --out salvaged
""")
DUMP_BATCHES: Final = "bin/kafka-dump-log.sh --deep-iteration --files $(ls -d <log.dirs>/{topic}-{partition})/*.log"
DUMP_METADATA_RECORD: Final = "bin/kafka-dump-log.sh --cluster-metadata-decoder --files {path}"
FIND_PRODUCER: Final = line("""
    kafka-transactions.sh --bootstrap-server HOST:PORT describe-producers --topic {topic} --partition {partition}
""")
READ_REMOTE_METADATA: Final = line("""
    bin/kafka-console-consumer.sh --bootstrap-server <host:port> --topic __remote_log_metadata --from-beginning
    --formatter
    'org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde$RemoteLogMetadataFormatter'
    | grep {segment_id}
""")
DUMP_LOG_OF_BROKER: Final = (
    "bin/kafka-dump-log.sh --files $(ls -d <log.dirs of broker {broker_id}>/{topic}-{partition})/*.log"
)
SHOW_LEADER_EPOCHS: Final = "cat <log.dirs of broker {broker_id}>/{topic}-{partition}/leader-epoch-checkpoint"
DUMP_SHARE_STATES: Final = line("""
    bin/kafka-dump-log.sh --share-group-state-decoder --files
    __share_group_state-{state_partition}/00000000000000000000.log
""")
DESCRIBE_PRODUCERS: Final = line("""
    bin/kafka-transactions.sh --bootstrap-server <host:port> describe-producers --topic {topic} --partition {partition}
""")
