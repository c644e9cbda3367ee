"""The tasks of an audit, once for each cluster of a run: `replication_audit` and `replication_audit_adhoc` share them.

In: a task's answer, a list of subjects: `{"subject": name, "directory": …, "look": [arguments of the step snapshot]}`.
Out: the tasks `snapshot`, `index_and_derive`, `evaluate`, `publish`, mapped over it. What one cluster's tasks do
concerns no other's; each has a directory of its own below the run's.

How many Spark applications run at once: as many as the pool `TIDEGAUGE_SPARK_POOL` has slots, over all runs and DAGs
(`pools.json`, beside this file, makes one: `airflow pools import pools.json`); without a pool, two of each DAG.
"""

import os
import re
from hashlib import sha256
from typing import Any, Final

from airflow.sdk import Param, XComArg, task_group

from tidegauge_job import command_step, spark_step
from tidegauge_snapshots_there import can_be_listed, clusters_there, snapshots_there

Subject = dict[str, Any]

BREACH_FAILS: Final = (os.environ.get("TIDEGAUGE_BREACH_FAILS") or "").lower() in ("1", "true", "yes")
"""Whether a run fails where invariants do not hold, unless its form says otherwise."""

_CLUSTER_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_NAMED: Final = "{{ task.subject }}"


def cluster_param(use: str) -> Param:
    """The form's field for one cluster, and what its name is used for. It offers those that have a snapshot; where
    nobody knows of one, nothing is filled in.
    """
    there = clusters_there(os.environ)
    unknown = None if can_be_listed(os.environ) else "kafka"
    return Param(
        there[0] if there else unknown,
        type=["null", "string"],
        examples=there,
        pattern=_CLUSTER_NAME,
        maxLength=100,
        title="Cluster",
        description=f"The name under which {use}",
    )


def snapshot_param(description: str) -> Param:
    """The form's field for a snapshot, with the newest ones to choose from."""
    return Param(
        "latest",
        type="string",
        examples=["latest", *snapshots_there(os.environ)],
        minLength=1,
        title="Snapshot",
        description=description,
    )


def verdict_params(breach_fails: str) -> dict[str, Param]:
    """The form's fields for what a breach does to the run. `breach_fails` says what is kept of a run that fails."""
    return {
        "fail_on": Param(
            "critical",
            type="string",
            enum=["critical", "warning", "info", "never"],
            title="Breached from",
            description="The least severity at which the run answers `breached`",
        ),
        "breach_fails": Param(
            BREACH_FAILS,
            type="boolean",
            title="Fail on a breach",
            description=f"Whether a run that answers `breached` fails; {breach_fails} all the same",
        ),
    }


def runs_root() -> str:
    """Where runs keep their directories."""
    return os.path.expanduser(os.environ.get("TIDEGAUGE_HOME") or "~/.local/share/tidegauge") + "/runs"


def subject(run_id: str, name: str, *look: str, snapshots: list[str]) -> Subject:
    """What one mapped instance of the tasks is about. `run_id` must name no run of another DAG: Airflow gives runs of
    two DAGs for one instant the same id.
    """
    run = re.sub("[:+/]", "-", run_id)
    return {
        "subject": name,
        "directory": f"{runs_root()}/{run if run.strip('.') else folder(run)}/{folder(name)}",
        "look": [*look, "--", *snapshots],
    }


def folder(name: str) -> str:
    """A cluster's name as that of one folder, from which nothing leads out; one of our own clusters' as it is."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100]
    if plain == name and plain.strip("."):
        return name
    return f"{plain.strip('.') or '_'}-{sha256(name.encode()).hexdigest()[:8]}"


def where_spark_waits() -> dict[str, Any]:
    """The pool in which Spark applications wait for each other, or a limit without one."""
    pool = os.environ.get("TIDEGAUGE_SPARK_POOL")
    return {"pool": pool} if pool else {"max_active_tis_per_dag": 2}


@task_group(group_id="audit", prefix_group_id=False)
def audit(subject: Any, directory: Any, look: Any) -> None:
    """One cluster: found, read, judged, published."""
    about: dict[str, Any] = {"subject": subject, "map_index_template": _NAMED}
    snapshot = command_step("snapshot", "--run", directory, "--fail-on", "{{ params.fail_on }}", look, **about)
    index_and_derive = spark_step("index", "derive", arguments=["--run", directory], **about, **where_spark_waits())
    evaluate = command_step("evaluate", "--run", directory, may_breach=True, **about)
    publish = command_step(
        "publish", "--run", directory, may_breach=True, breach_fails="{{ params.breach_fails }}", **about
    )
    snapshot >> index_and_derive >> evaluate >> publish


def audit_each(subjects: XComArg) -> None:
    """The tasks, mapped over what a task answers."""
    audit.expand_kwargs(subjects)
