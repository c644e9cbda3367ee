"""The simulator's place: a Kafka cluster in miniature, seeded and deterministic, whose truth is known. Nothing yet.

The rule that will hold: it shares the codec (`kafka_log`) and the snapshot layout (`snapshots`) with the auditor, and
nothing else, so that a protocol rule is written once as a broker's behaviour and once as an auditor's recomputation.
"""
