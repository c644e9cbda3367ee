"""Whoever may write to a run directory runs no code by it."""

import os
import pickle
from pathlib import Path

import pytest

from snapshots.location import location
from spark_jobs import own_pickles
from spark_jobs.errors import UnavailableError
from spark_jobs.facts.coordinator_tables import CoordinatorTable


class _Runs:
    def __init__(self, function: object, *arguments: object) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> object:
        return self._call


@pytest.mark.parametrize(
    "named",
    [
        (os.system, "touch {}"),
        (eval, "open('{}', 'w')"),
        (Path.touch, Path("{}")),
        # Ours, and no type of values: it opens what it is told to.
        (location, "{}"),
        (own_pickles.loads, b""),
        (pickle.loads, b"cos\nsystem\n."),
    ],
    ids=lambda named: getattr(named[0], "__name__", "?"),
)
def test_a_pickle_that_calls_something_is_refused(tmp_path: Path, named: tuple[object, ...]) -> None:
    touched = tmp_path / "touched"
    function, *arguments = named
    told = [Path(touched) if isinstance(a, Path) else a.format(touched) if isinstance(a, str) else a for a in arguments]
    data = pickle.dumps(_Runs(function, *told))
    with pytest.raises(UnavailableError, match="See that nobody else writes to the run directory"):
        own_pickles.loads(data, where=tmp_path / "gathered.pickle")
    assert not touched.exists()


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"no pickle at all", pickle.dumps([1])[:-2], b"\x80\x05.", b"\x80\x05]h\x07."]
)
def test_what_is_no_pickle_is_told(data: bytes) -> None:
    with pytest.raises(UnavailableError, match="is not what an earlier step of this run wrote there"):
        own_pickles.loads(data, where="x")


def test_values_come_back() -> None:
    table = CoordinatorTable(forgotten={("g", "t", 0)}, settled_at={"id": 3})
    values = (table, Path("/x"), location("s3://bucket/snapshot"), location("/a/snapshot"))
    found = own_pickles.loads(own_pickles.dumps(values), where="x")
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]
