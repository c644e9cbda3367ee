"""The store: staged facts and a report in, one published run out, all of it or nothing.

    migrate(url)                                     tables and views, from nothing or from an older version
    downgrade(url, revision)                         the tables of an older version again
    schema_problem(said)                             why this version cannot read a store, if it cannot
    knows(revision)                                  whether it can use tables of that revision at all
    run_id = open_run(url, key, ...)                 a run that nobody sees; what a killed one left behind is removed
    stage(url, run_id, "replicas", batches, part=…)  facts, by any number of tasks at once, each part once
    mark_judged(url, run_id)                         from here on it waits for its publishing, without a process
    run_id = publish(url, run_id, report)            one transaction; from here on the views show it
    discard(url, run_id)                             the other way out
    acknowledge(url, cluster, breach_id, …)          somebody's word on a breach; withdraw(…) takes it back
    decide(url, loss_id, "accepted", by=…, note=…)   somebody's decision on a loss
    settle(url, cluster, cluster_id, "rebuilt", …)   somebody's word on which cluster a name stands for
    note_dated_ahead(url, met, met_by=…)             snapshots of the future, told until settle_dated_ahead(…)

    retain(url, runs_before=…, facts_before=…)       what has become old goes, never what an open breach rests on
    forget(url, cluster, dry_run=…)                  a cluster goes, with all runs and what was found

    open_runs(url, [NewRun(…), …])                   many at once: of a small run the round trips are what takes time
    stage_together(url, "replicas", {run_id: …})
    discard(url, *run_ids)

The rules that must hold: the views show whole runs only; of one (cluster, snapshot, ruleset version) they show one run;
auditing a snapshot again changes nothing unless it finds something else. Every failure of the store is a `StoreError`
that names it without its password.
"""

from tidegauge.store.acknowledgement import Acknowledgement, Verification, acknowledge, withdraw
from tidegauge.store.connection import by_column, connect
from tidegauge.store.dated_ahead import dated_ahead, note_dated_ahead, settle_dated_ahead
from tidegauge.store.forgetting import Forgotten, forget
from tidegauge.store.identity import UnidentifiedError, contradictions, identities, settle, shared_names
from tidegauge.store.loss_decision import Decision, decide
from tidegauge.store.publish import Report, publish
from tidegauge.store.retention import Removed, retain
from tidegauge.store.runs import (
    PUBLISHED_WITHIN,
    NewRun,
    RunKey,
    discard,
    keep,
    mark_judged,
    open_run,
    open_runs,
    release,
)
from tidegauge.store.schema import (
    VERSION,
    NewerStoreError,
    downgrade,
    grant_roles,
    knows,
    migrate,
    schema_problem,
    unmigrated,
)
from tidegauge.store.staging import stage, stage_together

__all__ = [
    "PUBLISHED_WITHIN",
    "VERSION",
    "Acknowledgement",
    "Decision",
    "Forgotten",
    "NewRun",
    "NewerStoreError",
    "Removed",
    "Report",
    "RunKey",
    "UnidentifiedError",
    "Verification",
    "acknowledge",
    "by_column",
    "connect",
    "contradictions",
    "dated_ahead",
    "decide",
    "discard",
    "downgrade",
    "forget",
    "grant_roles",
    "identities",
    "keep",
    "knows",
    "mark_judged",
    "migrate",
    "note_dated_ahead",
    "open_run",
    "open_runs",
    "publish",
    "release",
    "retain",
    "schema_problem",
    "settle",
    "settle_dated_ahead",
    "shared_names",
    "stage",
    "stage_together",
    "unmigrated",
    "withdraw",
]
