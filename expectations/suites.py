"""Great Expectations suites, rendered from the catalogue and run in Postgres where the facts are staged.

In: a store's URL and runs. Out: for each run and invariant whether Great Expectations found rows that breach it, and
how many. Great Expectations is the judge of breaches. An expectation that could not be evaluated, or that counts other
rows than `verdicts` does, is our error and stops the run; it is never read as success.

One suite a relation, one expectation an invariant, one batch the rows of all the runs judged together: a validation
costs some tens of milliseconds whatever it looks at. Each expectation counts, run by run, and fetches no row: the rows
come from `verdicts.breach_query`, without the library's limit of 200. Importing the library takes seconds, so it is
imported when a suite is first built; `warm_up` may be called in a thread before.
"""

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from expectations.errors import EvaluationError
from expectations.model import Invariant
from expectations.registry import CATALOGUE
from expectations.verdicts import InvariantResult, breached_condition

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuite
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.data_context.types.base import DataContextConfig
    from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation

_RESULT_FORMAT: Final = "SUMMARY"
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_.+-]{1,200}")
_BY_RUN: Final = "breached_by_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What Great Expectations says of one invariant in one run."""

    code: str
    suite: str
    expectation: str
    success: bool
    unexpected_count: int
    """Rows that breach it."""


def warm_up() -> None:
    """Imports the library (seconds); idempotent, for a thread that runs while something else is waited for."""
    _expectation_class()


def suite_name(relation: str) -> str:
    """The suite that judges a relation."""
    return f"tidegauge_{relation}"


def suites(invariants: Iterable[Invariant] = CATALOGUE.values()) -> "Mapping[str, ExpectationSuite]":
    """Relation -> suite: one expectation an invariant, with its code, statement and reason as meta data."""
    import great_expectations as gx

    rendered = {}
    for relation, members in by_relation(invariants).items():
        suite = gx.ExpectationSuite(name=suite_name(relation))
        for invariant in members:
            suite.add_expectation(expectation(invariant))
        rendered[relation] = suite
    return rendered


def expectation(invariant: Invariant) -> "UnexpectedRowsExpectation":
    """The expectation that no row breaches `invariant`."""
    from great_expectations.expectations.metadata_types import FailureSeverity

    predicate = breached_condition(invariant).replace("{", "{{").replace("}", "}}")
    return _expectation_class()(
        # One row with one value, however many runs breach it: the library keeps no more than 200 rows.
        unexpected_rows_query=(
            f"SELECT CAST(json_object_agg(run_id, breached) AS text) AS {_BY_RUN} FROM (SELECT run_id, count(*) AS "
            f"breached FROM {{batch}} WHERE {predicate} GROUP BY run_id) AS counted"
        ),
        description=invariant.statement,
        severity=FailureSeverity(invariant.severity.value),
        notes=[invariant.because],
        meta={"code": invariant.code, "name": invariant.name, "reference": invariant.reference},
    )


def validate(
    engine_url: str,
    run_ids: Sequence[str],
    *,
    invariants: Iterable[Invariant] = CATALOGUE.values(),
    schema: str = "tidegauge",
) -> Mapping[str, Mapping[str, Validation]]:
    """Run id -> code -> what Great Expectations says of the run's staged rows: one pass over the rows of all runs.

    Raises `EvaluationError`, and ConnectionError if the store cannot be reached.
    """
    for run_id in run_ids:
        if not _RUN_ID.fullmatch(run_id):
            raise EvaluationError(f"The run id {run_id!r} holds other characters than letters, digits and _.+-.")
    import great_expectations as gx
    from great_expectations.datasource.fluent.interfaces import TestConnectionError

    judged = tuple(invariants)
    members = by_relation(judged)
    found: dict[str, dict[str, Validation]] = {run_id: {} for run_id in run_ids}
    with _quiet():
        context = gx.get_context(mode="ephemeral", project_config=_project())
        try:
            source = context.data_sources.add_postgres(name="store", connection_string=_connection_string(engine_url))
        except TestConnectionError as error:
            raise ConnectionError(f"Great Expectations cannot reach the store: {error}") from error
        try:
            for relation, suite in suites(judged).items():
                # The ids were checked, so they may stand in the text: a batch cannot have parameters here.
                chosen = ", ".join(f"'{run_id}'" for run_id in run_ids)
                asset = source.add_query_asset(
                    name=relation, query=f"SELECT * FROM {schema}.{relation} WHERE run_id IN ({chosen})"
                )
                batch = asset.add_batch_definition(name=relation)
                for run_id, validation in _validated(batch, suite, members[relation], run_ids):
                    found[run_id][validation.code] = validation
        finally:
            source.get_execution_engine().close()
            source.get_engine().dispose()  # another engine, with another connection
    return found


def confirm(results: Iterable[InvariantResult], validations: Mapping[str, Validation]) -> None:
    """Raises `EvaluationError` unless Great Expectations found as many breached rows of a run as `results` count."""
    for result in results:
        validation = validations.get(result.code)
        if validation is None:
            raise EvaluationError(f"Great Expectations did not evaluate {result.code} {result.name}: no verdict.")
        if validation.unexpected_count != result.breached:
            raise EvaluationError(
                f"{result.code} {result.name}: Great Expectations found {validation.unexpected_count} breached rows, "
                f"the counting query {result.breached}. The facts changed in between, or the two queries differ; "
                "nothing was published. Please report it."
            )


def by_relation(invariants: Iterable[Invariant]) -> Mapping[str, Sequence[Invariant]]:
    """Relation -> its invariants, both in a fixed order."""
    members: dict[str, list[Invariant]] = {}
    for invariant in sorted(invariants, key=lambda i: (i.relation, i.code)):
        members.setdefault(invariant.relation, []).append(invariant)
    return members


def _validated(
    batch: "BatchDefinition[Any]", suite: "ExpectationSuite", members: Sequence[Invariant], run_ids: Sequence[str]
) -> Iterator[tuple[str, Validation]]:
    outcome = batch.get_batch().validate(suite, result_format=_RESULT_FORMAT)
    seen = set()
    for one in outcome.results:
        configuration = one.expectation_config
        assert configuration is not None, "a result says which expectation it is of"
        code = configuration.meta["code"]
        if one.exception_info and _raised(one.exception_info):
            if "OperationalError" in _message(one.exception_info):
                raise ConnectionError(f"The store went away during {code}: {_message(one.exception_info)}")
            raise EvaluationError(
                f"Great Expectations could not evaluate {code} {configuration.meta['name']}: "
                f"{_message(one.exception_info)}. The invariant's SQL does not fit the store; nothing was published. "
                "Please report it."
            )
        counts = (one.result or {}).get("observed_value")
        if not isinstance(counts, dict) or bool(one.success) == bool(counts) or not counts.keys() <= set(run_ids):
            raise EvaluationError(f"Great Expectations gave no counts of breached rows for {code}: {one.result!r}.")
        seen.add(code)
        for run_id in run_ids:
            count = counts.get(run_id, 0)
            yield (
                run_id,
                Validation(
                    code=code,
                    suite=suite.name,
                    expectation=configuration.type,
                    success=count == 0,
                    unexpected_count=count,
                ),
            )
    missing = [i.code for i in members if i.code not in seen]
    if missing:
        raise EvaluationError(f"Great Expectations returned no result for {', '.join(missing)} of suite {suite.name}.")


def _project() -> "DataContextConfig":
    """A project in memory: no directory for docs that nobody builds, no progress bars, nothing sent anywhere."""
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    return DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )


def _connection_string(engine_url: str) -> str:
    """The URL as the library takes it: with a host even where a socket is meant, and without `$`, which it expands."""
    from sqlalchemy.engine import make_url

    url = make_url(engine_url)
    if url.host is None:
        url = url.set(host="localhost")  # libpq takes the query's host
    return url.render_as_string(hide_password=False).replace("$", "%24")


def _raised(exception_info: Mapping[str, Any]) -> bool:
    """The library gives one dictionary, or one for each metric that failed."""
    if "raised_exception" in exception_info:
        return bool(exception_info["raised_exception"])
    return any(isinstance(i, Mapping) and i.get("raised_exception") for i in exception_info.values())


def _message(exception_info: Mapping[str, Any]) -> str:
    if "exception_message" in exception_info:
        return str(exception_info["exception_message"])
    return "; ".join(str(i["exception_message"]) for i in exception_info.values() if isinstance(i, Mapping))


@cache
def _expectation_class() -> "type[UnexpectedRowsExpectation]":
    with _quiet():
        from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation

        class ExpectInvariantToHold(UnexpectedRowsExpectation):
            """No row of the batch breaches the invariant. Counts in the database, run by run, and fetches no row."""

            metric_dependencies = ("unexpected_rows_query.table",)

            def _validate(
                self,
                metrics: dict[str, Any],
                runtime_configuration: dict[str, Any] | None = None,
                execution_engine: Any = None,
            ) -> dict[str, Any]:
                (row,) = metrics["unexpected_rows_query.table"]
                counts = json.loads(row[_BY_RUN] or "{}")  # nothing to aggregate is null
                return {"success": not counts, "result": {"observed_value": counts}}

    return ExpectInvariantToHold


@contextmanager
def _quiet() -> Iterator[None]:
    """Great Expectations logs and draws progress bars on standard error; nothing of that is a finding."""
    before = os.environ.get("TQDM_DISABLE")
    logger = logging.getLogger("great_expectations")
    level = logger.level
    os.environ["TQDM_DISABLE"] = "1"
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        if before is None:
            del os.environ["TQDM_DISABLE"]
        else:
            os.environ["TQDM_DISABLE"] = before
