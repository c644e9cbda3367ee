"""A project of Great Expectations: the catalogue as a directory that the library opens by itself.

    gx/great_expectations.yml      stores, the data docs site, the data source with an asset for each relation
    gx/expectations/               a plain suite for each relation, and one about the runs themselves
    gx/validation_definitions/     which suite judges which asset
    gx/checkpoints/                one checkpoint, which runs them all
    gx/uncommitted/                results, pages, and the variables of this machine

In: an empty directory. Out: that. The rules that must hold: no file holds a password, the store's address is a
variable; the same catalogue gives the same files, so that a project under version control shows what a new version
changes; and what cannot be judged (no store, no run, another ruleset) is an error or a failure, never a success.
"""

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import great_expectations as gx
import yaml
from great_expectations.core import ExpectationSuite
from great_expectations.data_context.data_context.file_data_context import FileDataContext
from great_expectations.datasource.fluent.postgres_datasource import PostgresDatasource

from tidegauge.expectations.gx.quiet import quiet
from tidegauge.expectations.gx.suites import RUNS, plain_suites, suite_of_runs
from tidegauge.expectations.registry import CATALOGUE, by_relation

NAME: Final = "tidegauge"
"""Of the data source and of the checkpoint."""
BATCH: Final = "newest_runs"
"""Of each asset's batch definition: the rows of the newest published run of each cluster."""
STORE_VARIABLE: Final = "TIDEGAUGE_STORE_URL"

_IDENTITY: Final = uuid.uuid5(uuid.NAMESPACE_OID, NAME)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_RUN_COLUMNS: Final = "run_id, cluster, snapshot_id, ruleset_version, captured_at, published_at"


def write(directory: Path, *, clusters: Sequence[str] = ()) -> None:
    """Writes the project below an empty directory; `clusters`: those to judge, none for all. Raises OSError."""
    with quiet():
        gx.get_context(mode="file", project_root_dir=directory)  # makes the folders and the library's own settings
        settings = directory / "gx" / FileDataContext.GX_YML
        with settings.open("a", encoding="utf-8") as file:
            file.write(_our_settings(clusters))
        context = gx.get_context(mode="file", project_root_dir=directory)
        ids = _fill(context, {RUNS: suite_of_runs(len(clusters) or None), **plain_suites()})
    for path in (directory / "gx").rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub("|".join(ids), lambda found: ids[found[0]], text), encoding="utf-8")


def _our_settings(clusters: Sequence[str]) -> str:
    source = PostgresDatasource(id=_id("source"), name=NAME, connection_string=f"${{{STORE_VARIABLE}}}")
    runs = _newest_runs(clusters)
    queries = {RUNS: f"SELECT {_RUN_COLUMNS} FROM {runs}"} | {
        relation: f"SELECT * FROM tidegauge.{relation} WHERE run_id IN (SELECT run_id FROM {runs})"
        for relation in by_relation(CATALOGUE.values())
    }
    for name, query in queries.items():
        asset = source.add_query_asset(name=name, query=query)
        asset.id = _id("asset", name)
        asset.add_batch_definition_whole_table(BATCH).id = str(_id("batch", name))
    source_by_name = _by_name([yaml.safe_load(source.yaml())])
    ours = {
        "fluent_datasources": source_by_name,
        "analytics_enabled": False,  # nothing is sent anywhere, unless who owns the project wants it
        "progress_bars": {"globally": False},  # one a relation, and each is done in a moment
    }
    return "\n" + yaml.safe_dump(ours, sort_keys=False, width=1000)


def _by_name(listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The library's list of named things, as its file has them: by name, and so all the way down."""
    return {
        one["name"]: {
            key: _by_name(value) if key in ("assets", "batch_definitions") else value
            for key, value in one.items()
            if key != "name"
        }
        for one in listed
    }


def _newest_runs(clusters: Sequence[str]) -> str:
    if not clusters:
        return "tidegauge.v_run_latest"
    return f"tidegauge.v_run_latest WHERE cluster IN ({', '.join(map(_literal, clusters))})"


def _literal(text: str) -> str:
    """A name as SQL, in signs that neither SQLAlchemy nor the library takes for something of its own (: % $ {)."""
    if _PLAIN_NAME.fullmatch(text):
        return f"'{text}'"
    return "U&'" + "".join(c if c.isascii() and c.isalnum() else f"\\+{ord(c):06x}" for c in text) + "'"


def _fill(context: FileDataContext, suites: Mapping[str, ExpectationSuite]) -> Mapping[str, str]:
    """Adds suites, validation definitions and the checkpoint. Returns each id that chance chose -> one that stays."""
    source = context.data_sources.get(NAME)
    stays: dict[str, str] = {}
    validations = []
    for name, suite in suites.items():
        kept = context.suites.add(suite)
        stays |= dict(_ids_of(name, kept))
        validation = context.validation_definitions.add(
            gx.ValidationDefinition(name=name, data=source.get_asset(name).get_batch_definition(BATCH), suite=kept)
        )
        validations.append(validation)
        stays[str(validation.id)] = str(_id("validation", name))
    # Without UpdateDataDocsAction, which renders every page again after each of its validations and takes five times as
    # long as they do: `context.build_data_docs()` renders them once.
    checkpoint = context.checkpoints.add(gx.Checkpoint(name=NAME, validation_definitions=validations))
    stays[str(checkpoint.id)] = str(_id("checkpoint"))
    return stays


def _ids_of(name: str, suite: ExpectationSuite) -> Iterator[tuple[str, str]]:
    yield str(suite.id), str(_id("suite", name))
    for expectation in suite.expectations:
        what = (expectation.meta or {}).get("code", expectation.expectation_type)
        yield str(expectation.id), str(_id("expectation", name, what))


def _id(*names: str) -> uuid.UUID:
    return uuid.uuid5(_IDENTITY, "/".join(names))
