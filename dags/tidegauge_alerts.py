"""
### Alerts

Tells whoever the file `TIDEGAUGE_ALERTS` names of each breach, once when it is found and once when it is over, and of
clusters that nobody has audited for longer than they should be. It looks at the store, so that it also tells of what
an audit by hand has found, and tells when no audit runs at all.

A channel that is down is told with the next run; the task fails, so that somebody notices.
"""

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG

from tidegauge_job import DEFAULTS, ShareOperator

SCHEDULE = "*/10 * * * *" if os.environ.get("TIDEGAUGE_ALERTS") else None
"""Without the file there is nobody to tell."""

with DAG(
    dag_id="tidegauge_alerts",
    description="Tells people of breaches, of their end, and of clusters without a fresh audit",
    doc_md=__doc__,
    schedule=SCHEDULE,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["kafka", "replication", "tidegauge"],
    default_args={
        **DEFAULTS,
        "retries": 1,
        "retry_exponential_backoff": False,
        "execution_timeout": timedelta(minutes=15),
    },
) as dag:
    ShareOperator(task_id="send", arguments=["alerts", "send"])
