"""Great Expectations suites, rendered from the catalogue and run in Postgres where the facts are staged.

In: a store's URL and a run. Out: for each invariant whether Great Expectations found rows that breach it, and how many.
The rule that must hold: Great Expectations is the judge of breaches. An expectation that could not be evaluated, or
that counts other rows than `verdicts` does, is our error and stops the run; it is never read as success.

One suite a relation, one expectation an invariant, one batch a run's rows of the relation. Each expectation counts and
fetches nothing: the rows come from `verdicts.breach_query`, without the library's limit of 200. Importing the library
takes seconds, so it is imported when a suite is first built; `warm_up` may be called in a thread before.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from expectations.catalogue.model import Invariant
from expectations.catalogue.registry import CATALOGUE
from expectations.errors import EvaluationError
from expectations.verdicts import InvariantResult, breached_condition

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuite
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.data_context.types.base import DataContextConfig
    from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation

_RESULT_FORMAT: Final = "SUMMARY"
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_.+-]{1,200}")


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
        unexpected_rows_query=f"SELECT 1 AS breached FROM {{batch}} WHERE {predicate}",
        description=invariant.statement,
        severity=FailureSeverity(invariant.severity.value),
        notes=[invariant.because],
        meta={"code": invariant.code, "name": invariant.name, "reference": invariant.reference},
    )


def validate(
    engine_url: str,
    run_id: str,
    *,
    invariants: Iterable[Invariant] = CATALOGUE.values(),
    schema: str = "tidegauge",
) -> Mapping[str, Validation]:
    """Code -> what Great Expectations says of the run's staged rows.

    Raises `EvaluationError`, and ConnectionError if the store cannot be reached.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise EvaluationError(f"The run id {run_id!r} holds other characters than letters, digits and _.+-.")
    import great_expectations as gx
    from great_expectations.datasource.fluent.interfaces import TestConnectionError

    judged = tuple(invariants)
    members = by_relation(judged)
    found: dict[str, Validation] = {}
    with _quiet():
        context = gx.get_context(mode="ephemeral", project_config=_project())
        try:
            source = context.data_sources.add_postgres(name="store", connection_string=_connection_string(engine_url))
        except TestConnectionError as error:
            raise ConnectionError(f"Great Expectations cannot reach the store: {error}") from error
        try:
            for relation, suite in suites(judged).items():
                # The id was checked, so it may stand in the text: a batch cannot have parameters here.
                asset = source.add_query_asset(
                    name=relation, query=f"SELECT * FROM {schema}.{relation} WHERE run_id = '{run_id}'"
                )
                batch = asset.add_batch_definition(name=relation)
                for validation in _validated(batch, suite, members[relation]):
                    found[validation.code] = validation
        finally:
            source.get_execution_engine().close()
            source.get_engine().dispose()  # another engine, with another connection
    return found


def confirm(results: Iterable[InvariantResult], validations: Mapping[str, Validation]) -> None:
    """Raises `EvaluationError` unless Great Expectations found just as many breached rows as `results` count."""
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
    batch: "BatchDefinition[Any]", suite: "ExpectationSuite", members: Sequence[Invariant]
) -> Iterator[Validation]:
    outcome = batch.get_batch().validate(suite, result_format=_RESULT_FORMAT)
    seen = {}
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
        count = (one.result or {}).get("observed_value")
        if not isinstance(count, int) or bool(one.success) != (count == 0):
            raise EvaluationError(f"Great Expectations gave no count of breached rows for {code}: {one.result!r}.")
        seen[code] = Validation(
            code=code, suite=suite.name, expectation=configuration.type, success=count == 0, unexpected_count=count
        )
    missing = [i.code for i in members if i.code not in seen]
    if missing:
        raise EvaluationError(f"Great Expectations returned no result for {', '.join(missing)} of suite {suite.name}.")
    yield from seen.values()


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
            """No row of the batch breaches the invariant. Counts in the database and fetches no row."""

            metric_dependencies = ("unexpected_rows_query.row_count",)

            def _validate(
                self,
                metrics: dict[str, Any],
                runtime_configuration: dict[str, Any] | None = None,
                execution_engine: Any = None,
            ) -> dict[str, Any]:
                count = metrics["unexpected_rows_query.row_count"]
                return {"success": count == 0, "result": {"observed_value": count}}

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
