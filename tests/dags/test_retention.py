"""The retention DAG, and the form of audits by hand, as Airflow sees them."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

DAGS = Path(__file__).parents[2] / "dags"


def dag_of(name):
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(DAGS / f"{name}.py"))
    assert bag.import_errors == {}
    return bag.dags[name]


@pytest.fixture(scope="module")
def adhoc():
    return dag_of("replication_audit_adhoc")


def test_retention_runs_nightly_with_what_is_set_and_can_be_switched_off(monkeypatch):
    from airflow.sdk.exceptions import ParamValidationError

    monkeypatch.setenv("TIDEGAUGE_RETENTION", "--keep-days 90 --facts-days 7 --snapshots")
    dag = dag_of("tidegauge_retention")
    assert dag.schedule.expression == "30 1 * * *"
    assert dag.params["keep"] == "--keep-days 90 --facts-days 7 --snapshots"
    with pytest.raises(ParamValidationError):
        dag.params.get_param("keep").resolve("--keep-days 1; rm -rf /")
    monkeypatch.setenv("TIDEGAUGE_RETENTION", "none")
    assert dag_of("tidegauge_retention").schedule is None


@pytest.mark.parametrize(("dry_run", "last"), [(True, ["--dry-run"]), (False, [])])
def test_retention_is_one_command(job, monkeypatch, dry_run, last):
    monkeypatch.setenv("TIDEGAUGE_RETENTION", "--keep-days 90")
    task = dag_of("tidegauge_retention").get_task("retain")
    said = []
    monkeypatch.setattr(job.ProcessOperator, "_run", lambda self, command, **_: said.append(command) or 0)
    context = {"params": {"keep": "--keep-days 90 --snapshots", "dry_run": dry_run}}
    task.render_template_fields(context)
    task.execute(context)
    assert said[0][1:] == ["store", "retain", "--keep-days", "90", "--snapshots", *last]


def subject_of(dag, **given):
    params = {name: dag.params[name] for name in dag.params} | {"cluster": "kafka"} | given
    context = {"dag_run": SimpleNamespace(run_id="manual__1"), "params": params}
    module = sys.modules[dag.get_task("subjects").python_callable.__module__]
    (found,) = module.subjects_of(context)
    return found


def asked(dag, **given):
    return " ".join(subject_of(dag, **given)["look"])


def test_its_directory_is_not_that_of_an_audit_that_runs_under_the_same_id(adhoc):
    assert subject_of(adhoc)["directory"].endswith("/runs/adhoc-manual__1/kafka")


def test_the_calendar_s_last_day_is_a_day(adhoc):
    assert "--before" not in asked(adhoc, from_date="2026-11-01", to_date="9999-12-31")


@pytest.mark.parametrize("value", ["--store=postgresql://elsewhere/x", "-h", "{{ 7 * 7 }}", "a\nb", "$(id)", "; id #"])
def test_what_a_form_says_is_the_value_of_its_option_and_no_option(adhoc, value):
    from tidegauge.cli.audit_commands import job_command

    given = {"snapshot": value, "partitions": [f"{value}-0"], "invariants": ["D06"]}
    look = subject_of(adhoc, **given)["look"]
    asked_for = job_command.make_context("job", ["snapshot", "--run", "run", *look]).params
    assert (asked_for["directories"], asked_for["partitions"]) == ((value,), (f"{value}-0",))
    assert (asked_for["store"], asked_for["cluster"]) == (None, "kafka")


def test_the_form_is_typed(adhoc):
    schemas = {name: adhoc.params.get_param(name).schema for name in adhoc.params}
    assert set(schemas) == {
        "cluster", "snapshot", "from_date", "to_date", "partitions", "invariants", "compare", "fail_on", "breach_fails",
    }  # fmt: skip
    assert schemas["partitions"]["type"] == ["null", "array"]
    assert schemas["from_date"]["format"] == "date"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partitions", ["orders"]),
        ("partitions", "orders-0"),
        ("invariants", ["D06; rm"]),
        ("from_date", "yesterday"),
        ("fail_on", "fatal"),
        ("compare", "perhaps"),
    ],
)
def test_a_wrong_entry_is_refused(adhoc, name, value):
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        adhoc.params.get_param(name).resolve(value)


def test_the_form_becomes_words(adhoc):
    assert asked(adhoc) == "--cluster kafka --previous auto -- latest"
    assert asked(
        adhoc, cluster="prod", snapshot="/a", compare=False, partitions=["orders-0", "a-1"], invariants=["D06"]
    ) == ("--cluster prod --partition orders-0 --partition a-1 --invariant D06 -- /a")
    assert asked(adhoc, from_date="2026-11-01", to_date="2026-11-02", compare=False) == (
        "--cluster kafka --since 2026-11-01T00:00:00+00:00 --before 2026-11-03T00:00:00+00:00 -- all"
    )


def test_days_that_make_no_sense_fail_at_once(job, adhoc):
    with pytest.raises(job.AirflowFailException, match="is before the first"):
        asked(adhoc, from_date="2026-11-02", to_date="2026-11-01")
    with pytest.raises(job.AirflowFailException, match="not both"):
        asked(adhoc, from_date="2026-11-02", snapshot="/a")


def test_its_words_are_those_that_the_command_takes(adhoc):
    from tidegauge.cli.main import main

    known = {option for parameter in main.commands["job"].params for option in parameter.opts}
    words = asked(adhoc, from_date="2026-11-01", to_date="2026-11-02", partitions=["a-0"], invariants=["D06"]).split()
    assert {word for word in words if word.startswith("--") and word != "--"} <= known
