"""
### Replication audit

Reads snapshots of Kafka clusters' log directories and says where replicas disagree, what was lost, and why.

| task | what it does |
|---|---|
| `subjects` | whose snapshots: of the events that triggered the run, of every cluster, or what the parameters name |
| `snapshot` | finds the snapshot, checks its manifest (a plain copy gets one), makes the run's directory |
| `index_and_derive` | one Spark application: *index* reads segments into summaries, *derive* folds them into facts |
| `evaluate` | stages the facts in Postgres, where Great Expectations validates the invariants; nobody sees them yet |
| `publish` | one transaction makes the run visible; writes the report |

All but the first are mapped over clusters: a snapshot that cannot be used fails its own cluster's tasks and no other's.

**By asset.** Every snapshot that `capture_snapshots` finishes (asset `tidegauge_snapshot`) is audited; of one cluster,
those that have been finished meanwhile are audited together, in one Spark application.

**By the clock** (`TIDEGAUGE_SCHEDULE`, daily). Every cluster of `TIDEGAUGE_CLUSTERS`, or else each that has snapshots
under `TIDEGAUGE_SNAPSHOTS`, or else, where that is in an object store, that of the parameters: the newest snapshot
captured by the end of the run's interval. What this version has audited before is skipped.

**Backfills.** `airflow backfill create --dag-id replication_audit --from-date 2026-11-01 --to-date 2026-11-07`, or the
form in the UI: each date audits the newest snapshot captured on it, and compares it with the last one before that date,
whatever is audited first. A date without a snapshot fails at once and says so. Runs of several dates may go on at once;
repeating one replaces nothing unless it finds something else. Results keep the version of the ruleset that judged them.

**By hand.** The snapshot that the parameters name; for parts of one there is `replication_audit_adhoc`.

Each snapshot is compared with the newest of its cluster that was captured before it and has been audited
(`--previous auto`), so that what is gone for good is found; the first of a cluster is compared with nothing.

A breach is a result: `publish` succeeds and answers `breached`, unless `breach_fails` (`TIDEGAUGE_BREACH_FAILS`) asks
it to fail. A snapshot that cannot be used fails at once; a store or a Spark that is away is tried again.

There is no `deadline=` here: Airflow 3.3's crashes `airflow dags test`, and knows of this DAG's runs only. The DAG
`tidegauge_alerts` tells of every cluster without a fresh audit, whoever was to make it.
"""

import os
from datetime import datetime
from typing import Any

from airflow.sdk import DAG, AssetOrTimeSchedule, CronDataIntervalTimetable, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from tidegauge_audit_steps import Subject, audit_each, cluster_param, snapshot_param, subject, verdict_params
from tidegauge_capture_clusters import clusters, snapshots_root
from tidegauge_job import DEFAULTS, SNAPSHOT
from tidegauge_snapshots_there import clusters_there, named

SCHEDULE = os.environ.get("TIDEGAUGE_SCHEDULE") or "@daily"


def subjects_of(context: Any) -> list[Subject]:
    """Whose audits this run is, with the arguments of each."""
    run, params = context["dag_run"], context["params"]
    if landed := snapshots_of_events(context["triggering_asset_events"], params["cluster"]):
        return [
            subject(run.run_id, cluster, "--cluster", cluster, "--previous", "auto", snapshots=snapshots)
            for cluster, snapshots in landed.items()
        ]
    if run.run_type not in ("scheduled", "backfill"):
        cluster = named(params["cluster"], os.environ)
        look = ("--cluster", cluster, "--previous", "auto")
        return [subject(run.run_id, cluster, *look, snapshots=[params["snapshot"]])]
    until = ("--before", run.data_interval_end.isoformat())
    if run.run_type == "backfill":
        when: tuple[str, ...] = ("--since", run.data_interval_start.isoformat(), *until, "--previous", "before")
    else:
        when = (*until, "--previous", "auto", "--unless-published")
    audited = every_cluster(params["cluster"])
    if not audited and run.run_type == "scheduled":
        raise AirflowSkipException(f"There is nothing to do: no snapshot lies below {snapshots_root(os.environ)} yet.")
    return [
        subject(run.run_id, cluster, "--cluster", cluster, *place, *when, snapshots=["latest"])
        for cluster, place in (audited or {named(None, os.environ): ()}).items()
    ]


def snapshots_of_events(events: Any, unnamed: str) -> dict[str, list[str]]:
    """The snapshots whose events triggered a run, each once, by cluster; `unnamed` is whose an event does not say."""
    named: dict[str, dict[str, None]] = {}
    for event in (event for of_asset in events.values() for event in of_asset):
        extra = event.extra or {}
        match extra.get("snapshot"), extra.get("cluster") or unnamed:
            case (str(place), str(cluster)) if place:
                named.setdefault(cluster, {})[place] = None
            case _:
                raise AirflowFailException(
                    f"An event of the asset {SNAPSHOT.name} names no snapshot. Its extra says where one lies, such as "
                    '{"snapshot": "s3://backup/kafka/prod/20261121T030000Z", "cluster": "prod"}.'
                )
    return {cluster: list(places) for cluster, places in named.items()}


def every_cluster(otherwise: str | None) -> dict[str, tuple[str, ...]]:
    """The clusters of TIDEGAUGE_CLUSTERS with where their snapshots are kept; without that file, those that have
    snapshots; where nobody knows of any, the one given.
    """
    # Read when it is needed: a mistake in the file must not take this DAG away.
    found: dict[str, tuple[str, ...]] = {}
    found |= {c.name: ("--snapshots", c.out) for c in clusters(os.environ).clusters}
    if not found:
        found |= dict.fromkeys(clusters_there(os.environ), ())
    if not found and otherwise is not None:
        found[otherwise] = ()
    return found


with DAG(
    dag_id="replication_audit",
    description="Where clusters' replicas disagree, what was lost, and why",
    doc_md=__doc__,
    schedule=[SNAPSHOT]
    if SCHEDULE == "none"
    else AssetOrTimeSchedule(assets=[SNAPSHOT], timetable=CronDataIntervalTimetable(SCHEDULE, timezone="UTC")),
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=4,
    tags=["kafka", "replication", "tidegauge"],
    default_args=dict(DEFAULTS),
    params={
        "cluster": cluster_param("its snapshots are kept and its results published"),
        "snapshot": snapshot_param("A directory, or `latest`: the newest under TIDEGAUGE_SNAPSHOTS/<cluster>"),
        **verdict_params("its results are published"),
    },
) as dag:

    @task
    def subjects() -> list[Subject]:
        """Whose audits this run is."""
        return subjects_of(get_current_context())

    audit_each(subjects())
