"""Great Expectations run in Postgres, where the facts are staged.

In: a store's URL and runs. Out: for each run and invariant whether Great Expectations found rows that breach it, and
how many.
The rule that must hold: Great Expectations is the judge of breaches. An expectation that could not be evaluated, or a
suite without expectations, is our error and stops the run; it is never read as success.

One suite a relation, one expectation an invariant, one batch the rows of all the runs judged together: a validation
costs some tens of milliseconds whatever it looks at. Each expectation counts, run by run, and fetches no row: the rows
come from `verdicts.breach_query`, without the library's limit of 200.
"""

import getpass
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import great_expectations as gx
from great_expectations.core import ExpectationSuite, ExpectationSuiteValidationResult
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.data_context.types.base import (
    DataContextConfig,
    InMemoryStoreBackendDefaults,
    ProgressBarsConfig,
)
from great_expectations.datasource.fluent.interfaces import TestConnectionError
from sqlalchemy.engine import make_url

from tidegauge.expectations.agreement import Validation
from tidegauge.expectations.errors import EvaluationError
from tidegauge.expectations.gx.custom_expectation import Told
from tidegauge.expectations.gx.quiet import quiet
from tidegauge.expectations.gx.suites import suites
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE, by_relation

Counts = TypeVar("Counts")

_RESULT_FORMAT: Final = "SUMMARY"
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_.+-]{1,200}")


def validate(
    engine_url: str,
    run_ids: Sequence[str],
    invariants: Iterable[Invariant] = CATALOGUE.values(),
    *,
    schema: str = "tidegauge",
) -> Mapping[str, Mapping[str, Validation]]:
    """Run id -> code -> what Great Expectations says of the run's staged rows: one pass over the rows of all runs.

    Raises `EvaluationError`, and ConnectionError if the store cannot be reached.
    """
    judged = tuple(invariants)
    if not judged:
        raise EvaluationError("No invariant was to be judged, and nothing would have been a success.")
    for run_id in run_ids:
        if not _RUN_ID.fullmatch(run_id):
            raise EvaluationError(f"The run id {run_id!r} holds other characters than letters, digits and _.+-.")
    members = by_relation(judged)
    found: dict[str, dict[str, Validation]] = {run_id: {} for run_id in run_ids}
    with quiet():
        context = gx.get_context(mode="ephemeral", project_config=in_memory())
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


def _validated(
    batch: BatchDefinition[Any], suite: ExpectationSuite, members: Sequence[Invariant], run_ids: Sequence[str]
) -> Iterator[tuple[str, Validation]]:
    def counts_of(result: Told) -> Mapping[str, int] | None:
        counts = result.get("observed_value")
        return counts if isinstance(counts, dict) and counts.keys() <= set(run_ids) else None

    outcome = batch.get_batch().validate(suite, result_format=_RESULT_FORMAT)
    for code, kind, counts in validated(outcome, suite.name, members, counts_of):
        for run_id in run_ids:
            count = counts.get(run_id, 0)
            validation = Validation(
                code=code, suite=suite.name, expectation=kind, success=count == 0, unexpected_count=count
            )
            yield run_id, validation


def validated(
    outcome: ExpectationSuiteValidationResult,
    suite: str,
    members: Sequence[Invariant],
    counts_of: Callable[[Told], Counts | None],
) -> Iterator[tuple[str, str, Counts]]:
    """Code, type of expectation and counts of each result of a suite. `counts_of`: the counts in a result, zero or
    empty where no row breaches; None if it has none.

    Raises `EvaluationError` for what was not evaluated, and ConnectionError if the store went away meanwhile.
    """
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
                f"{_message(one.exception_info)}. The invariant's SQL does not fit where its rows are; nothing was "
                "published. Please report it."
            )
        counts = counts_of(one.result or {})
        if counts is None or bool(one.success) == bool(counts):
            raise EvaluationError(f"Great Expectations gave no counts of breached rows for {code}: {one.result!r}.")
        seen.add(code)
        yield code, configuration.type, counts
    missing = [i.code for i in members if i.code not in seen]
    if missing:
        raise EvaluationError(f"Great Expectations returned no result for {', '.join(missing)} of suite {suite}.")


def in_memory() -> DataContextConfig:
    """A project in memory: no directory for docs that nobody builds, no progress bars, nothing sent anywhere."""
    return DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )


def _connection_string(engine_url: str) -> str:
    """The URL as the library takes it: with a host even where a socket is meant, with the user that libpq would take
    where it names none, and without `$`, which the library expands.
    """
    url = make_url(engine_url)
    if url.username is None:
        url = url.set(username=os.environ.get("PGUSER") or getpass.getuser())
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
