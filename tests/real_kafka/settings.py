"""How the test brokers are set up: small heaps, small files, short waits. Data, and nothing else."""

from typing import Final

JVM: Final = (
    "-Xms96m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:MaxMetaspaceSize=128m",
    "-XX:ReservedCodeCacheSize=64m",
    "-Xss512k",
    "-XX:MaxDirectMemorySize=64m",
    "-XX:-UsePerfData",
)

DEFAULTS: Final = {
    "num.partitions": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.segment.bytes": "1048576",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.segment.bytes": "1048576",
    "log.segment.bytes": "1048576",
    "log.index.size.max.bytes": "65536",
    "log.index.interval.bytes": "1024",
    "log.cleaner.dedupe.buffer.size": "4194304",  # The default of 128 MB does not fit into the heap.
    "log.cleaner.backoff.ms": "1000",
    "log.retention.check.interval.ms": "2000",
    "log.initial.task.delay.ms": "1000",
    "log.segment.delete.delay.ms": "10000",
    "metadata.log.max.record.bytes.between.snapshots": "20000",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "queued.max.requests": "100",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "replica.lag.time.max.ms": "5000",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "300",
    "controlled.shutdown.enable": "true",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
}

ONE_OF_EACH: Final = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""Of a broker that is alone."""


def small_segments(version: str) -> dict[str, str]:
    """A topic's configuration for segments of a few kB; by their age where sizes below 1 MiB are refused."""
    if version == "kafka-3.9":
        return {"segment.bytes": "16384"}
    return {"segment.ms": "200"} if version == "kafka-4.0" else {"internal.segment.bytes": "16384"}


_LOG4J2: Final = """\
status = error
appender.console.type = Console
appender.console.name = STDOUT
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = {level}
rootLogger.appenderRef.stdout.ref = STDOUT
"""

_LOG4J: Final = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""

LOGGING: Final = {
    "log4j2": ("-Dlog4j2.configurationFile=", _LOG4J2.format(level="info")),
    "log4j": ("-Dlog4j.configuration=file:", _LOG4J),
    "tools": ("-Dlog4j2.configurationFile=", _LOG4J2.format(level="error")),
}
"""Logging library -> the JVM's option that names its configuration, and the configuration."""
