"""Invariants: the list with the latest word of each cluster, and one with its history, its breaches and its runbook."""

from collections import Counter
from typing import Any

from fastapi import APIRouter
from markupsafe import Markup

from tidegauge.console.database import Row
from tidegauge.console.figures import figure
from tidegauge.console.pages.breaches import BREACH_COLUMNS
from tidegauge.console.pages.charts import over_time
from tidegauge.console.reading import breaches, losses
from tidegauge.console.refusal import not_found
from tidegauge.console.web import Asked, Page, add_page
from tidegauge.expectations.data_docs import FAMILIES, runbook_html
from tidegauge.expectations.registry import CATALOGUE

_STATUS_COLUMNS = (
    "code", "cluster", "captured_at", "run_id", "verdict", "severity", "checked", "breached", "unknown", "reasons",
)  # fmt: skip
_SHOWN = 50
_CARDS = 60
_CHARTS = 12
"""Of the worst clusters."""
_WORST_FIRST = ("breached", "unknown", "holds")


def add(router: APIRouter) -> None:
    """`/invariants`, `/invariants/CODE`"""
    add_page(router, "/invariants", listing)
    add_page(router, "/invariants/{code}", invariant)


def listing(asked: Asked) -> Page:
    """Every invariant by family, with its verdicts."""
    only = asked.choice("only", ("breached", "unknown"))
    verdicts = breaches.invariant_verdicts(asked.store)
    families: dict[str, list[Any]] = {}
    for member in CATALOGUE.values():
        if only is None or only in verdicts.get(member.code, {}):
            families.setdefault(FAMILIES.get(member.code[0], member.code[0]), []).append(member)
    status = breaches.invariant_status(asked.store) if asked.is_download else ()
    return Page(
        template="invariants.html.j2",
        values={"families": families, "verdicts": verdicts, "only": only},
        figures={"invariants": figure(status, *_STATUS_COLUMNS)},
    )


def invariant(asked: Asked) -> Page:
    """One invariant."""
    found = CATALOGUE.get(asked.path["code"])
    if found is None:
        raise not_found(f"This ruleset has no invariant {asked.path['code']!r}.")
    status = sorted(
        breaches.invariant_status(asked.store, found.code),
        key=lambda row: (_WORST_FIRST.index(row["verdict"]), -row["breached"], row["cluster"]),
    )
    # A chart each of the worst, of which the first ones are; who downloads wants all.
    charted = [row["cluster"] for row in status[:_CHARTS]]
    history = breaches.invariant_history(asked.store, found.code, None if asked.is_download else charted)
    by_cluster: dict[str, list[Row]] = {}
    for row in history:
        by_cluster.setdefault(row["cluster"], []).append(row)
    listed = breaches.breaches_of_invariant(asked.store, found.code, asked.size if asked.is_download else _SHOWN)
    lost = breaches.breaches_of_invariant(asked.store, found.code, _SHOWN, lost=True)
    return Page(
        template="invariant.html.j2",
        values={
            "invariant": found,
            "family": FAMILIES.get(found.code[0], found.code[0]),
            "status": status[:_CARDS],
            "others": Counter(row["verdict"] for row in status[_CARDS:]),
            "charts": {
                name: over_time(
                    rows,
                    ("breached", "breached", "critical"),
                    ("unknown", "unknown", "warning"),
                    ("checked", "checked", "line"),
                )
                for name, rows in by_cluster.items()
            },
            "breaches": listed,
            "lost": lost,
            "losses": losses.of_breaches(asked.store, lost),
            "runbook": Markup(runbook_html(found)),  # noqa: S704 - our own text, rendered without raw HTML
        },
        figures={
            "status": figure(status, *_STATUS_COLUMNS),
            "history": figure(
                history,
                "cluster",
                "captured_at",
                "run_id",
                "snapshot_id",
                "verdict",
                "severity",
                "checked",
                "breached",
                "unknown",
            ),
            "breaches": figure(listed, *BREACH_COLUMNS),
        },
    )
