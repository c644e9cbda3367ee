"""Parquet files in a folder, wherever that is: of this machine or in an object store.

In: a `Location`. Out: the files, and a dataset of their rows. Nothing but `Location` is asked for the bytes, so a place
that our settings reach is read, whatever connectors Spark's JVM and pyarrow have of their own.
"""

from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FSSpecHandler, PyFileSystem

from tidegauge.snapshots.location import Location, ObjectPath
from tidegauge.snapshots.places import sizes_in

_SUFFIX: Final = ".parquet"


def sizes_of_parts(folder: Location) -> dict[str, int]:
    """The files by name, with their bytes; none where there is no such folder."""
    return dict(sizes_in(folder, _SUFFIX))


def parts_in(folder: Location) -> list[Location]:
    """The files, in order."""
    return [folder / name for name in sizes_in(folder, _SUFFIX)]


def dataset_at(folder: Location, schema: pa.Schema) -> ds.Dataset:
    """All rows of the files, read when they are asked for."""
    parts = parts_in(folder)
    if isinstance(folder, ObjectPath):
        paths = [folder.path.rstrip("/") + "/" + part.name for part in parts]
        return ds.dataset(paths, schema=schema, format="parquet", filesystem=PyFileSystem(FSSpecHandler(folder.fs)))
    return ds.dataset([str(part) for part in parts], schema=schema, format="parquet")
