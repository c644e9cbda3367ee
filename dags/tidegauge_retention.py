"""
### Retention

Removes what is older than `TIDEGAUGE_RETENTION` says, by default `--keep-days 400 --facts-days 30`: options of the
command `tidegauge store retain`. Its one task, `retain`, writes into its log what went and what was kept.

Facts are nearly all of a run, so they go first; what each invariant said, and what was found, is kept longer. Never
removed are a cluster's newest run, and the runs on which the life of a breach rests that is open or was seen lately.
Snapshots go only if `--snapshots` is among the options, and only those that no newer one links from.

`dry_run` in the form tells what would go, and removes nothing.
"""

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG, CronTriggerTimetable, Param

from tidegauge_job import DEFAULTS, ShareOperator

KEPT = os.environ.get("TIDEGAUGE_RETENTION") or "--keep-days 400 --facts-days 30"

with DAG(
    dag_id="tidegauge_retention",
    description="Removes old runs' facts and results, their directories and, if asked to, old snapshots",
    doc_md=__doc__,
    schedule=None if KEPT == "none" else CronTriggerTimetable("30 1 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["kafka", "retention", "tidegauge"],
    default_args={**DEFAULTS, "retry_delay": timedelta(minutes=5), "max_retry_delay": timedelta(minutes=30)},
    params={
        "keep": Param(
            "" if KEPT == "none" else KEPT,
            type="string",
            pattern=r"^--keep-days [0-9]+( --facts-days [0-9]+)?( --snapshots)?$",
            title="What is kept",
            description="Options of `tidegauge store retain`: --keep-days N [--facts-days N] [--snapshots]",
        ),
        "dry_run": Param(False, type="boolean", title="Only tell", description="Say what would go, and remove nothing"),
    },
    render_template_as_native_obj=True,
) as dag:
    ShareOperator(
        task_id="retain",
        arguments=[
            *("store", "retain"), "{{ params.keep.split() }}", "{{ ['--dry-run'] if params.dry_run else [] }}",
        ],
    )  # fmt: skip
