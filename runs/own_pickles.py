"""What one step hands to the next as a pickle, and takes back as nothing but values.

In: values of our own types. Out: bytes, and the values again. The rule that must hold: reading them runs nobody's code.
A pickle may name any function of any module to be called, and a run directory may be one that others can write to; so
only our own value types are found, and the containers that they are made of; none of these takes room for a number.
"""

import io
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path, PosixPath, PurePath, PurePosixPath
from types import MappingProxyType
from typing import Any, Final

from tidegauge.runs.errors import UnavailableError
from tidegauge.snapshots.location import Location, ObjectPath, location

_OURS: Final = tuple(
    f"tidegauge.{room}." for room in ("kafka_log", "snapshots", "facts", "runs", "derivation", "spark_jobs")
)
_CONTAINERS: Final = {
    (kind.__module__, kind.__qualname__): kind
    for kind in (
        Counter, defaultdict, deque, dict, frozenset, list, MappingProxyType, OrderedDict, Path, PosixPath,
        PurePosixPath, set, tuple,
    )
}  # fmt: skip


def dumps(value: object) -> bytes:
    """The bytes of a value of ours."""
    file = io.BytesIO()
    _Keeping(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def loads(data: bytes, *, where: object) -> Any:
    """The value again. `where`: the file, for the words of an `UnavailableError`, if it is none that `dumps` made."""
    try:
        return _Values(io.BytesIO(data)).load()
    except (
        pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError, MemoryError, OverflowError,
        TypeError, ValueError,
    ) as error:  # fmt: skip
        raise UnavailableError(
            f"{where} is not what an earlier step of this run wrote there ({error}). See that nobody else writes to "
            "the run directory, and run the audit again."
        ) from error


class _Keeping(pickle.Pickler):
    def persistent_id(self, value: object) -> str | None:
        """A place in an object store is kept as its URL."""
        return str(value) if isinstance(value, ObjectPath) else None


class _Values(pickle.Unpickler):
    def persistent_load(self, url: Any) -> Location:
        """The place again."""
        return location(str(url))

    def find_class(self, module_name: str, global_name: str) -> Any:
        """A type of values; anything else is refused."""
        container = _CONTAINERS.get((module_name, global_name))
        if container is not None:
            return container
        if module_name.startswith(_OURS) and "." not in global_name:
            found = super().find_class(module_name, global_name)
            if isinstance(found, type) and found.__module__ == module_name and _is_of_values(found):
                return found
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}")


def _is_of_values(kind: type) -> bool:
    return is_dataclass(kind) or issubclass(kind, (Enum, PurePath, tuple))
