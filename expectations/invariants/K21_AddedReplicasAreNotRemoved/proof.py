"""Files in which K21 is breached, and nothing else is a root."""

from dataclasses import replace
from pathlib import Path
from typing import Any


def break_it(directory: Path, tools: Any) -> None:
    """The metadata log's last record about a partition adds broker 3 and removes it."""
    logs = tools.metadata_logs(directory)
    records = tools.records_of(logs[0])
    offset, last = [(at, record) for at, record in records if record.name == "PartitionChangeRecord"][-1]
    reassigning = replace(last, fields={**last.fields, "adding_replicas": (3,), "removing_replicas": (3,)})
    tools.rewrite(logs, tools.at(offset, reassigning))
