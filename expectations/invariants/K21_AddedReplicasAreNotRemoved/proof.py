"""Files in which K21 is breached, and nothing else is a root."""

from dataclasses import replace
from pathlib import Path

from tests.derivation.metadata_damage import at, metadata_logs, records_of, rewrite
from tidegauge.kafka_log.metadata_records import MetadataRecord


def break_it(directory: Path) -> None:
    """The metadata log's last record about a partition adds broker 3 and removes it."""
    logs = metadata_logs(directory)
    about = [(offset, record) for offset, record in records_of(logs[0]) if record.name == "PartitionChangeRecord"]
    offset, last = about[-1]
    rewrite(logs, at(offset, _reassigning(last)))


def _reassigning(record: MetadataRecord) -> MetadataRecord:
    return replace(record, fields={**record.fields, "adding_replicas": (3,), "removing_replicas": (3,)})
