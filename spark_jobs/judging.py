"""Facts judged where they are: what has many rows, and is not shown row by row, need not travel to the store for it.

In: `facts/` of a run's snapshots. Out: `derivation.judged_files`: each row's states, how often each came, what Great
Expectations says of them. The rules that must hold: an invariant is the same object here and in the store, only its SQL
is said in Spark's words; and Great Expectations reads the rows' states by itself, so that it may disagree.

A relation takes three passes: its facts are read once, their states written; the states are counted; Great Expectations
counts them. The latter two read a few bytes a row.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tidegauge.derivation.fact_files import rows_in
from tidegauge.derivation.judged_files import FOUND, ROW, JudgedRelation, folder_of, keep_judged
from tidegauge.expectations.dialects import Dialect
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import by_relation
from tidegauge.expectations.states import breached_state, counts_of, state_of, states_of, undecided_state
from tidegauge.progress import working
from tidegauge.relations import RELATIONS
from tidegauge.runs.run import AuditedSnapshot, Run
from tidegauge.runs.survivors import surviving
from tidegauge.snapshots.location import Location
from tidegauge.spark_jobs.parts import frame_of, write_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ANSI: Final = "spark.sql.ansi.enabled"
_ROWS: Final = "rows"
_BREACHED: Final = "breached_rows"
_UNKNOWN: Final = "unknown_rows"


def judge_many(spark: "SparkSession", run: Run) -> None:
    """Judges each relation of a snapshot that has more rows than `Run.many_rows` and is not shown row by row."""
    for snapshot in surviving(run).snapshots:
        with run.failures.of("derive", snapshot.key), _true_arithmetic(spark):
            many = list(_many(snapshot, run))
            if many:
                _judge(spark, run, snapshot, many)


def _many(snapshot: AuditedSnapshot, run: Run) -> Iterator[tuple[str, Sequence[Invariant]]]:
    for relation, invariants in by_relation(run.restriction.judged()).items():
        if not RELATIONS[relation].shown and rows_in(snapshot.target / "facts", relation) > run.many_rows:
            yield relation, invariants


def _judge(
    spark: "SparkSession", run: Run, snapshot: AuditedSnapshot, many: Sequence[tuple[str, Sequence[Invariant]]]
) -> None:
    from tidegauge.expectations.gx.spark_validation import validating_states

    with validating_states() as validate, working("judge", "relations", parts=len(many)) as advance:
        for relation, invariants in many:
            folder = folder_of(run, snapshot.key, relation)
            write_frame(run, _states(facts_of(spark, run, snapshot.target / "facts", relation), invariants), folder)
            states = frame_of(spark, run, folder, _schema_of_states(invariants))
            counted = _counted(states, invariants)
            told = JudgedRelation(
                rows=counted.pop(_ROWS),
                breached_rows=counted.pop(_BREACHED),
                unknown_rows=counted.pop(_UNKNOWN),
                counts=counted,
                validations=validate(relation, states.select(*map(state_of, invariants)), invariants),
            )
            keep_judged(run, snapshot.key, relation, told)
            advance(1)


def facts_of(spark: "SparkSession", run: Run, facts: Location, relation: str) -> "DataFrame":
    """All rows of one relation."""
    return frame_of(spark, run, facts / relation, RELATIONS[relation].arrow_schema)


def _schema_of_states(invariants: Sequence[Invariant]) -> pa.Schema:
    """What is read again of a row: whether it is to be looked at, and its state by invariant."""
    return pa.schema([(FOUND, pa.bool_()), *((state_of(invariant), pa.string()) for invariant in invariants)])


def _states(facts: "DataFrame", invariants: Sequence[Invariant]) -> "DataFrame":
    """A row for each fact, as `judged_files` tells."""
    from pyspark.sql import functions as f

    states = states_of(invariants, dialect=Dialect.SPARK)
    judged = facts.select("*", *(f.expr(sql).alias(name) for name, sql in states.items()))
    found = f.expr(
        f"CASE WHEN {' OR '.join(map(breached_state, invariants))} THEN TRUE"
        f" WHEN {' OR '.join(map(undecided_state, invariants))} THEN FALSE END"
    )
    row = f.when(f.col(FOUND).isNotNull(), f.struct(*(f"`{name}`" for name in facts.columns)))
    return judged.withColumn(FOUND, found).select(FOUND, row.alias(ROW), *states)


def _counted(states: "DataFrame", invariants: Sequence[Invariant]) -> dict[str, int]:
    from pyspark.sql import functions as f

    counts = {
        **counts_of(invariants),
        _ROWS: "count(*)",
        _BREACHED: f"count(*) FILTER (WHERE {FOUND})",
        _UNKNOWN: f"count(*) FILTER (WHERE NOT {FOUND})",
    }
    # One row, of some numbers for each invariant.
    (row,) = states.agg(*(f.expr(sql).alias(name) for name, sql in counts.items())).collect()
    return row.asDict()


@contextmanager
def _true_arithmetic(spark: "SparkSession") -> Iterator[None]:
    """A session in which a number that its type has no room for is an error, whatever somebody set; never another
    number, and never null.
    """
    before = spark.conf.get(_ANSI, "true")
    assert before is not None, "a setting of Spark's own has a value"
    spark.conf.set(_ANSI, "true")
    try:
        yield
    finally:
        spark.conf.set(_ANSI, before)
