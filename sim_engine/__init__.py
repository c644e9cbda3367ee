"""Kafka clusters whose truth is known. Today: the replication protocol, explored exhaustively (`explore`).

The rule that must hold: this package shares the codec (`kafka_log`) and the snapshot layout (`snapshots`) with the
auditor, and nothing else, so that a protocol rule is written once as a broker's behaviour and once as an auditor's
recomputation.
"""
