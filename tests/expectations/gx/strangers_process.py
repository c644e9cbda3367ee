"""A process that has Great Expectations and no module of ours, as whoever is handed an exported project has it.

    python -I strangers_process.py checkpoint PROJECT        opens it, runs its checkpoint, builds its data docs
    python -I strangers_process.py checkpoints PROJECT...    the same of each, one after the other
    python -I strangers_process.py runs PROJECT              runs the validation of the runs alone
    python -I strangers_process.py runs_of PROJECT STORE...  the same for each of these addresses
    python -I strangers_process.py suites FILE...            loads suites and says what is left of them

It prints what came out as JSON on its last line. Not a module of the tests: they start it by its path.
"""

import importlib.abc
import json
import os
import sys
from pathlib import Path
from typing import Any

OURS = ("tests", "tidegauge")


class _Absent(importlib.abc.MetaPathFinder):
    """Ours are not there, wherever they are installed."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname.partition(".")[0] in OURS:
            raise ModuleNotFoundError(f"{fullname} is not there", name=fullname)


sys.meta_path.insert(0, _Absent())

import great_expectations as gx  # noqa: E402 - from here on ours are absent


def checkpoint(project: str) -> dict[str, Any]:
    context = gx.get_context(mode="file", project_root_dir=project)
    result = context.checkpoints.get("tidegauge").run()
    found, errors = _found(list(result.run_results.values()))
    with_rows = context.validation_definitions.get("divergences").run(result_format="COMPLETE")
    rows = {
        one.expectation_config.meta["code"]: one.result["details"]["unexpected_rows"]
        for one in with_rows.results
        if one.result
    }
    docs = list(context.build_data_docs().values())
    return {"success": result.success, "found": found, "errors": errors, "rows": rows, "docs": docs}


def runs(project: str) -> dict[str, Any]:
    context = gx.get_context(mode="file", project_root_dir=project)
    result = context.validation_definitions.get("runs").run()
    found, errors = _found([result])
    return {"success": result.success, "found": found, "errors": errors}


def checkpoints(*projects: str) -> list[dict[str, Any]]:
    return [checkpoint(project) for project in projects]


def runs_of(project: str, *stores: str) -> list[dict[str, Any]]:
    outcomes = []
    for store in stores:
        os.environ["TIDEGAUGE_STORE_URL"] = store
        outcomes.append(runs(project))
    return outcomes


def _found(validations: list[Any]) -> tuple[dict[str, Any], list[str]]:
    """Code or type -> how many rows; and those that could not be evaluated."""
    found = {}
    errors = []
    for one in (one for validation in validations for one in validation.results):
        name = one.expectation_config.meta.get("code") or one.expectation_config.type
        found[name] = one.result.get("observed_value", one.result.get("unexpected_count"))
        if not one.result:
            errors.append(name)
    return found, errors


def suites(*files: str) -> list[list[str]]:
    loaded = [gx.ExpectationSuite(**json.loads(Path(file).read_text())) for file in files]
    return [[expectation.expectation_type for expectation in suite.expectations] for suite in loaded]


if __name__ == "__main__":
    asked = {f.__name__: f for f in (checkpoint, checkpoints, runs, runs_of, suites)}
    outcome = asked[sys.argv[1]](*sys.argv[2:])
    assert not any(name.partition(".")[0] in OURS for name in sys.modules)
    print(json.dumps(outcome, default=str))
