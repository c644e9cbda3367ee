"""
### Replication audit by hand

A form: which cluster, which snapshot or which days, which partitions, which invariants. It takes the same steps as
`replication_audit`: `subjects`, `snapshot`, `index_and_derive`, `evaluate`, `publish`.

With partitions or invariants chosen it is **a look, not a verdict on the cluster**: its report and data docs go into
the run's directory, and nothing is published, since breaches that it could not see would count as resolved.
Without, it is an audit like any other.

Days are UTC and both are included: every snapshot captured on them is audited, in one Spark application.
"""

import os
from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from tidegauge_audit_steps import Subject, audit_each, cluster_param, snapshot_param, subject, verdict_params
from tidegauge_job import DEFAULTS
from tidegauge_snapshots_there import named


def subjects_of(context: Any) -> list[Subject]:
    """The one audit that the form asks for."""
    params = context["params"]
    wanted = params["snapshot"]
    cluster = named(params["cluster"], os.environ)
    look = ["--cluster", cluster]
    if params["from_date"] or params["to_date"]:
        if wanted not in ("latest", "all"):
            raise AirflowFailException(f"Name a snapshot or days, not both: {wanted}, and from {params['from_date']}.")
        first, last = (_day(params[name]) for name in ("from_date", "to_date"))
        if first and last and last < first:
            raise AirflowFailException(f"The last day, {last}, is before the first, {first}.")
        look += ["--since", _midnight(first)] if first else []
        # Nothing is captured behind the calendar's last day.
        look += ["--before", _midnight(last + timedelta(days=1))] if last and last < date.max else []
        wanted = "all"
    if params["compare"]:
        look += ["--previous", "auto"]
    look += [word for place in params["partitions"] or () for word in ("--partition", place)]
    look += [word for code in params["invariants"] or () for word in ("--invariant", code)]
    return [subject(f"adhoc-{context['dag_run'].run_id}", cluster, *look, snapshots=[wanted])]


def _day(given: str | None) -> date | None:
    return date.fromisoformat(given) if given else None


def _midnight(day: date) -> str:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).isoformat()


with DAG(
    dag_id="replication_audit_adhoc",
    description="An audit by hand, of a cluster or of some partitions and invariants",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=4,
    tags=["kafka", "replication", "tidegauge"],
    default_args=dict(DEFAULTS),
    params={
        "cluster": cluster_param("its snapshots are kept"),
        "snapshot": snapshot_param("A directory, a URL, or `latest`: the newest under TIDEGAUGE_SNAPSHOTS/<cluster>"),
        "from_date": Param(
            None,
            type=["null", "string"],
            format="date",
            title="First day",
            description="Instead of one snapshot: all that were captured from this day on (UTC)",
        ),
        "to_date": Param(
            None,
            type=["null", "string"],
            format="date",
            title="Last day",
            description="Up to this day, and on it (UTC)",
        ),
        "partitions": Param(
            [],
            type=["null", "array"],
            items={"type": "string", "pattern": r"^.+-[0-9]+$"},
            title="Partitions",
            description="One a line, such as orders-0; none: all",
        ),
        "invariants": Param(
            [],
            type=["null", "array"],
            items={"type": "string", "pattern": r"^[A-Za-z][A-Za-z0-9]+$"},
            title="Invariants",
            description="Codes or names, one a line, such as D06; none: all",
        ),
        "compare": Param(
            True,
            type="boolean",
            title="Compare",
            description="With the snapshot that was audited last before, so that what is gone for good is found",
        ),
        **verdict_params("its report is written"),
    },
) as dag:

    @task
    def subjects() -> list[Subject]:
        """What the form asks for."""
        return subjects_of(get_current_context())

    audit_each(subjects())
