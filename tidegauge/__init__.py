"""Tidegauge: where a Kafka cluster's replicas disagree, what was lost and who is affected, from copies of log
directories.
"""

__version__ = "0.1.0"
