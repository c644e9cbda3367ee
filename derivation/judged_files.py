"""Relations that were judged where their rows are, as files of a run: what Spark writes and the evaluate step reads.

In: how often each state came, what Great Expectations says. Out: the same in another process, and the rows that are to
be looked at. What was found appears last, so a relation is either judged whole or not at all.

    RUN/work/judged/<snapshot>/<relation>/*.parquet    a row for each fact: `found`, `row`, and its state by invariant
    RUN/work/judged/<snapshot>/<relation>.json         `JudgedRelation`

`found` says whether a row is breached; null: it holds, or is no subject. `row` is the fact itself where it is found or
not known, else null, and nulls take no room. So the files are small, and the facts are read once.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegauge.derivation.located_parquet import parts_in
from tidegauge.expectations.agreement import Validation
from tidegauge.runs.run import Run
from tidegauge.snapshots.location import Location, open_bytes
from tidegauge.snapshots.places import emptied, made, sizes_in
from tidegauge.snapshots.whole_files import write_whole

FOUND: Final = "found"
ROW: Final = "row"
_TOLD: Final = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRelation:
    """What is known of a relation of one snapshot whose rows did not travel."""

    rows: int
    breached_rows: int
    unknown_rows: int
    """Of which no invariant is breached, and some cannot be judged."""
    counts: Mapping[str, int]
    """As `verdicts.counts_of` counts."""
    validations: Mapping[str, Validation]
    """By code."""


def forget_judged(run: Run) -> None:
    """Removes what was judged before: the facts are about to change."""
    emptied(_all(run))


def folder_of(run: Run, key: str, relation: str) -> Location:
    """Where the rows of a relation stand, each with its states."""
    return _of_snapshot(run, key) / relation


def keep_judged(run: Run, key: str, relation: str, judged: JudgedRelation) -> None:
    """Says that a relation of a snapshot is judged."""
    write_whole(made(_of_snapshot(run, key)) / f"{relation}{_TOLD}", json.dumps(asdict(judged)))


def judged_of(run: Run, key: str) -> Mapping[str, JudgedRelation]:
    """Relation -> what was found in it, of those relations of a snapshot that are judged."""
    folder = _of_snapshot(run, key)
    return {
        name.removesuffix(_TOLD): _read((folder / name).read_text(encoding="utf-8")) for name in sizes_in(folder, _TOLD)
    }


def rows_to_look_at(run: Run, key: str, relation: str, judged: JudgedRelation) -> Iterator[pa.RecordBatch]:
    """The facts that are breached, and those that are not known unless they are too many to look at, in batches."""
    unknown_too = judged.unknown_rows <= run.many_rows
    if not judged.breached_rows and not (unknown_too and judged.unknown_rows):
        return
    for part in parts_in(folder_of(run, key, relation)):
        with open_bytes(part) as file, pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(batch_size=16384, columns=[FOUND, ROW]):
                wanted = pc.is_valid(batch[FOUND]) if unknown_too else pc.fill_null(batch[FOUND], False)
                chosen = batch.filter(wanted)
                if chosen.num_rows:
                    yield pa.RecordBatch.from_struct_array(chosen[ROW])


def _all(run: Run) -> Location:
    return run.work / "judged"


def _of_snapshot(run: Run, key: str) -> Location:
    return _all(run) / hashlib.sha256(key.encode()).hexdigest()


def _read(text: str) -> JudgedRelation:
    told = json.loads(text)
    validations = {code: Validation(**one) for code, one in told.pop("validations").items()}
    return JudgedRelation(**told, validations=validations)
