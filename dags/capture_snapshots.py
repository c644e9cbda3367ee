"""
### Capturing snapshots

Captures the clusters that the file `TIDEGAUGE_CLUSTERS` lists, each broker where its disks are, and says so: every
snapshot that is finished is an event of the asset `tidegauge_snapshot`, by which `replication_audit` is triggered.

| task | what it does |
|---|---|
| `capture_broker` | in each cluster's group, mapped over brokers: `tidegauge capture --part` writes a broker's share |
| `finish` | one a cluster: joins the shares, asks the running cluster where `bootstrap` is given, writes the manifest |

A share that was interrupted is gone on with, since a run's snapshot has the same name, its instant, in every try. A log
dir that cannot be used fails its cluster at once and no other; a store or a disk that is away is tried again.
"""

import os
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from airflow.sdk import DAG, TaskGroup, task
from airflow.sdk.exceptions import AirflowFailException

from tidegauge_capture_clusters import Broker, Cluster, clusters
from tidegauge_job import DEFAULTS, ShareOperator, SnapshotOperator

CONFIGURED = clusters(os.environ)

SNAPSHOT_ID = "{{ snapshot_id(dag_run) }}"
"""The name under which the shares of one run meet."""


def snapshot_id(run: Any) -> str:
    """The snapshot's name: the instant that this run stands for, the same in every try of every task."""
    instant: datetime = run.logical_date or run.run_after
    return f"{instant.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def group_id(cluster: Cluster) -> str:
    """A cluster's name as that of a task group, which may hold no dots."""
    return cluster.name.replace(".", "__")


def capture_tasks(cluster: Cluster) -> list[tuple[str, str | None, tuple[Broker, ...]]]:
    """A cluster's mapped tasks: (task id, queue, brokers). A queue belongs to a task, not to one of its instances."""
    ordered = sorted(cluster.brokers, key=lambda broker: (broker.queue or "", broker.broker_id))
    of_queue = [(queue, tuple(found)) for queue, found in groupby(ordered, key=lambda broker: broker.queue)]
    names = ["capture_broker", *(f"capture_broker_{number}" for number in range(2, len(of_queue) + 1))]
    return [(name, queue, brokers) for name, (queue, brokers) in zip(names, of_queue, strict=True)]


with DAG(
    dag_id="capture_snapshots",
    description="Captures brokers' log directories into snapshots, each of which is then audited",
    doc_md=__doc__,
    schedule=CONFIGURED.schedule,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    user_defined_macros={"snapshot_id": snapshot_id},
    tags=["kafka", "replication", "tidegauge"],
    default_args={**DEFAULTS, "execution_timeout": timedelta(hours=12)},
) as dag:
    for cluster in CONFIGURED.clusters:
        where = {} if cluster.pool is None else {"pool": cluster.pool}
        with TaskGroup(group_id(cluster), tooltip=f"{len(cluster.brokers)} brokers of {cluster.name}"):
            finish = SnapshotOperator(
                task_id="finish",
                arguments=cluster.finish(SNAPSHOT_ID),
                cluster=cluster.name,
                snapshot=cluster.snapshot(SNAPSHOT_ID),
                snapshot_id=SNAPSHOT_ID,
                **where,
            )
            for task_id, queue, brokers in capture_tasks(cluster):
                listening = {} if queue is None else {"queue": queue}
                capture_broker = ShareOperator.partial(
                    task_id=task_id, map_index_template="{{ task.subject }}", **where, **listening
                ).expand_kwargs(
                    [
                        {
                            "arguments": cluster.share(broker, SNAPSHOT_ID),
                            "command": broker.command,
                            "subject": f"broker {broker.broker_id}",
                        }
                        for broker in brokers
                    ]
                )
                capture_broker >> finish

    if not CONFIGURED.clusters:

        @task
        def no_clusters() -> None:
            """Says what is missing to whoever runs this."""
            raise AirflowFailException(
                "Which clusters? TIDEGAUGE_CLUSTERS is not set: name a YAML file that lists clusters, their brokers "
                "and log dirs. The head of dags/tidegauge_capture_clusters.py shows one."
            )

        no_clusters()
