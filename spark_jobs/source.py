"""The Spark data source `kafka_segments`: a plan of segments in, summaries out as Arrow batches, partitioned by bytes.

In: option `plan`, the path of a JSON file with `SegmentTask`s; option `at_least`, how many partitions are worth
having; option `failures`, where to note whose segments made us fail. Out: rows of `INDEX_SCHEMA`. The rule that must
hold: this module imports nothing heavy, because Spark's planner starts a Python process of its own to list the
partitions.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidegauge.derivation.segment_tasks import Digests, SegmentTask, by_bytes
from tidegauge.runs.failures import Failures
from tidegauge.snapshots.whole_files import write_whole


def write_plan(path: Path, tasks: list[SegmentTask]) -> None:
    """Writes the plan that the option `plan` names."""
    write_whole(path, json.dumps([asdict(t) for t in tasks]))


def read_plan(path: Path) -> list[SegmentTask]:
    """Reads it back."""
    values = json.loads(path.read_text(encoding="utf-8"))
    for value in values:
        value["cuts"], value["zeros_behind"] = tuple(value["cuts"]), tuple(value["zeros_behind"])
        if (told := value["digests"]) is not None:
            value["digests"] = Digests(sha256=tuple(told["sha256"]), at_ns=told["at_ns"], kept_in=told["kept_in"])
    return [SegmentTask(**value) for value in values]


class SegmentPartition(InputPartition):
    """The segments of one Spark task."""

    def __init__(self, tasks: list[SegmentTask]) -> None:
        self.tasks = tasks


class SegmentReader(DataSourceReader):
    """Reads the plan's segments. The plan is looked at where the driver runs; a task is handed its part of it."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._plan = Path(options["plan"])
        self._at_least = int(options.get("at_least", "1"))
        self._failures = Failures(directory=options["failures"]) if "failures" in options else None

    def partitions(self) -> list[InputPartition]:
        """One partition per group of about equal bytes."""
        return [SegmentPartition(tasks) for tasks in by_bytes(read_plan(self._plan), at_least=self._at_least)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The partition's summaries."""
        from tidegauge.derivation.index import index_rows

        assert isinstance(partition, SegmentPartition)
        yield from index_rows(partition.tasks, failures=self._failures)


class KafkaSegments(DataSource):
    """`spark.read.format("kafka_segments").option("plan", path)`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "kafka_segments"

    def schema(self) -> StructType:
        """`INDEX_SCHEMA` as Spark has it."""
        from tidegauge.derivation.index_columns import INDEX_SCHEMA

        return from_arrow_schema(INDEX_SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader over the plan."""
        return SegmentReader(dict(self.options))
