"""Runs, one run, data docs by cluster and date, and search."""

from fastapi import APIRouter

from tidegauge.console.figures import figure
from tidegauge.console.pages.cluster import LOSS_COLUMNS
from tidegauge.console.reading import clusters, runs
from tidegauge.console.refusal import not_found
from tidegauge.console.web import Asked, Page, add_page
from tidegauge.expectations.registry import CATALOGUE

_RUN_COLUMNS = (
    "cluster", "run_id", "snapshot_id", "captured_at", "ruleset_version", "is_current", "critical", "warning", "info",
    "findings", "replicas", "bytes", "unread_files",
)  # fmt: skip
_FINDING_COLUMNS = (
    "cluster", "breach_id", "code", "name", "severity", "subject", "start_offset", "end_offset", "records",
    "explanation", "implied_by",
)  # fmt: skip
_INVARIANT_COLUMNS = ("code", "name", "severity", "verdict", "checked", "breached", "unknown", "reasons")
_FOUND = 20


def add(router: APIRouter) -> None:
    """`/runs`, `/runs/RUN`, `/data-docs`, `/search`"""
    add_page(router, "/runs", listing)
    add_page(router, "/runs/{run}", run)
    add_page(router, "/data-docs", data_docs)
    add_page(router, "/search", search)


def listing(asked: Asked) -> Page:
    """Runs, the newest snapshot first."""
    cluster = asked.query.get("cluster") or None
    found = runs.runs(asked.store, cluster=cluster, after=asked.after, size=asked.size)
    next_page = asked.links.runs(cluster=cluster, after=found.after) if found.after else None
    return Page(
        template="runs.html.j2",
        values={"found": found, "next_page": next_page, "cluster": cluster, "docs": asked.docs.runs()},
        figures={"runs": figure(found.rows, *_RUN_COLUMNS, next_page=next_page)},
    )


def run(asked: Asked) -> Page:
    """One run: what it looked at, what it said of each invariant, what it found."""
    row = runs.run(asked.store, asked.path["run"])
    if row is None:
        raise not_found(f"No run {asked.path['run']!r} is published.")
    run_id = row["run_id"]
    findings = runs.findings(asked.store, run_id, after=asked.after, size=asked.size)
    next_page = asked.links.run(run_id, after=findings.after) if findings.after else None
    invariants = runs.invariants(asked.store, run_id)
    losses = clusters.losses(asked.store, run_id, asked.size)
    return Page(
        template="run.html.j2",
        values={
            "run": row,
            "coverage": row["coverage"] or {},
            "invariants": invariants,
            "findings": findings,
            "next_page": next_page,
            "losses": losses,
            "docs": asked.docs.runs().get(run_id),
            "known_codes": CATALOGUE.keys(),
        },
        figures={
            "invariants": figure(invariants, *_INVARIANT_COLUMNS),
            "findings": figure(findings.rows, *_FINDING_COLUMNS, next_page=next_page),
            "losses": figure(losses, *LOSS_COLUMNS),
        },
    )


def data_docs(asked: Asked) -> Page:
    """Each run's data docs, by cluster and date."""
    folder = asked.query.get("folder")
    chosen = asked.docs.below(folder) if folder else asked.docs.runs().values()
    found = sorted(chosen, key=lambda d: (d.cluster, d.finished_at), reverse=True)
    by_cluster: dict[str, list[object]] = {}
    for docs in found:
        by_cluster.setdefault(docs.cluster, []).append(docs)
    rows = [
        {
            "cluster": d.cluster,
            "date": d.date,
            "run_id": d.run_id,
            "snapshot_id": d.snapshot_id,
            "finished_at": d.finished_at,
        }
        for d in found
    ]
    return Page(
        template="data_docs.html.j2",
        values={"by_cluster": dict(sorted(by_cluster.items())), "roots": asked.docs.roots},
        figures={"data_docs": figure(rows, "cluster", "date", "run_id", "snapshot_id", "finished_at")},
    )


def search(asked: Asked) -> Page:
    """Whatever holds what was typed, or begins so."""
    typed = asked.query.get("q", "").strip()
    found = runs.search(asked.store, typed, _FOUND) if typed else {}
    lowered = typed.lower()
    invariants = [
        i for i in CATALOGUE.values() if typed and (i.code.lower().startswith(lowered) or lowered in i.name.lower())
    ]
    rows = [{"kind": kind, **_name(kind, row)} for kind, of_kind in found.items() for row in of_kind]
    return Page(
        template="search.html.j2",
        values={"typed": typed, "found": found, "invariants": invariants[:_FOUND], "limit": _FOUND},
        figures={"search": figure(rows, "kind", "cluster", "name")},
    )


def _name(kind: str, row: object) -> dict[str, object]:
    column = {
        "clusters": "cluster",
        "topics": "topic",
        "incidents": "incident_id",
        "breaches": "breach_id",
        "runs": "run_id",
    }[kind]
    return {"cluster": row["cluster"], "name": row[column]}  # type: ignore[index]
