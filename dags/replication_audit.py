"""
### Replication audit

Reads one snapshot of a Kafka cluster's log directories and says where its replicas disagree, what was lost, and why.

| task | what it does |
|---|---|
| `snapshot` | finds the snapshot, checks its manifest (a plain copy gets one), makes the run's directory |
| `index_and_derive` | one Spark application: *index* reads segments into summaries, *derive* folds them into facts |
| `evaluate` | stages the facts in Postgres, where Great Expectations validates the invariants; nobody sees them yet |
| `publish` | one transaction makes the run visible; writes the report |

It is triggered by the asset `tidegauge_snapshot`: every snapshot that `capture_snapshots` finishes is audited, and
where several have been finished meanwhile, they are audited together, in one Spark application. Beside that it runs at
the times of `TIDEGAUGE_SCHEDULE`, and by hand, on the snapshot that its parameters name.

The steps *index* and *derive* share one `spark-submit`, because starting Spark costs more than either of them on a
day's data.

Each snapshot is compared with the newest of its cluster that was captured before it and has been audited
(`--previous auto`), so that what is gone for good is found; the first of a cluster is compared with nothing. A backfill
of a day takes the newest snapshot up to that day, and compares it with the one before that.

A breach is a result: `publish` succeeds and answers `breached`. A snapshot that cannot be used fails at once; a store
or a Spark that is away is tried again.
"""

import os
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG, AssetOrTimeSchedule, CronTriggerTimetable, Param
from airflow.sdk.exceptions import AirflowFailException

from job import SNAPSHOT, command_step, spark_step

HOME = os.environ.get("TIDEGAUGE_HOME") or "~/.local/share/tidegauge"

SCHEDULE = os.environ.get("TIDEGAUGE_SCHEDULE") or ("none" if os.environ.get("TIDEGAUGE_CLUSTERS") else "@daily")
"""Who captures by a DAG has every snapshot audited once it is there, and needs no clock for it."""

RUN = os.path.expanduser(HOME) + "/runs/{{ run_id | replace(':', '-') | replace('+', '-') }}"
"""The directory that the steps of one run share."""


AS_OF = "{{ dag_run.run_after.isoformat() if dag_run.run_type == 'backfill' else '' }}"
"""A backfill of a day audits the newest snapshot of that day, not today's."""


def snapshots(context: Any) -> list[str]:
    """What to audit: the snapshots whose events triggered this run, each once; else what the parameters name."""
    events = [event for of_asset in context["triggering_asset_events"].values() for event in of_asset]
    named: dict[str, None] = {}
    for event in events:
        match (event.extra or {}).get("snapshot"):
            case str(place) if place:
                named[place] = None
            case _:
                raise AirflowFailException(
                    f"An event of the asset {SNAPSHOT.name} names no snapshot. Its extra says where one lies, such as "
                    '{"snapshot": "s3://backup/kafka/prod/20261121T030000Z"}.'
                )
    return list(named) or [context["params"]["snapshot"]]


with DAG(
    dag_id="replication_audit",
    description="Where a cluster's replicas disagree, what was lost, and why",
    doc_md=__doc__,
    schedule=[SNAPSHOT]
    if SCHEDULE == "none"
    else AssetOrTimeSchedule(assets=[SNAPSHOT], timetable=CronTriggerTimetable(SCHEDULE, timezone="UTC")),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["kafka", "replication", "tidegauge"],
    default_args={
        "owner": "tidegauge",
        "retries": 3,
        "retry_delay": timedelta(minutes=1),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=15),
        "execution_timeout": timedelta(hours=6),
    },
    params={
        "cluster": Param(
            "kafka",
            type="string",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
            maxLength=100,
            title="Cluster",
            description="The name under which its snapshots are kept and its results published",
        ),
        "snapshot": Param(
            "latest",
            type="string",
            minLength=1,
            title="Snapshot",
            description="A directory, or `latest`: the newest under TIDEGAUGE_SNAPSHOTS/<cluster>",
        ),
        "fail_on": Param(
            "critical",
            type="string",
            enum=["critical", "warning", "info", "never"],
            title="Breached from",
            description="The least severity at which the run answers `breached`",
        ),
    },
) as dag:
    snapshot = command_step(
        "snapshot",
        *("--cluster", "{{ params.cluster }}", "--run", RUN, "--fail-on", "{{ params.fail_on }}"),
        *("--previous", "auto", "--as-of", AS_OF),
        subjects=snapshots,
    )
    index_and_derive = spark_step("index", "derive", arguments=["--run", RUN])
    evaluate = command_step("evaluate", "--run", RUN, may_breach=True)
    publish = command_step("publish", "--run", RUN, may_breach=True)

    snapshot >> index_and_derive >> evaluate >> publish
