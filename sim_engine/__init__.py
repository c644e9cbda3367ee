"""A Kafka cluster in miniature: a seeded, deterministic world that writes real log directories whose truth is known.

It shares the codec (`kafka_log`) and the snapshot layout (`snapshots`) with the auditor, and nothing else: a protocol
rule is written once here, as a broker's behaviour, and once in `spark_jobs.facts`, as an auditor's recomputation.
"""
