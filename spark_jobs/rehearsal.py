"""A Python data source with nothing in it but a few rows: what `class_archive` reads when it rehearses an audit."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType


class Rows(DataSource):
    """Two partitions of a few rows."""

    @classmethod
    def name(cls) -> str:
        """What `spark.read.format` calls it."""
        return "rehearsal"

    def schema(self) -> str:
        """A number and a name."""
        return "number long, name string"

    def reader(self, schema: StructType) -> "RowsReader":
        """Its reader."""
        return RowsReader()


class RowsReader(DataSourceReader):
    """Yields Arrow batches, as the sources of an audit do."""

    def partitions(self) -> Sequence[InputPartition]:
        """Two."""
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The same rows for each."""
        yield pa.RecordBatch.from_pydict({"number": [1, 2, 3], "name": ["a", "b", "b"]})
