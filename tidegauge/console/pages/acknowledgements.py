"""The trail: who acknowledged which breach or took that back, who vouches for the name, from where, and when."""

from fastapi import APIRouter

from tidegauge.console.figures import figure
from tidegauge.console.reading import breaches
from tidegauge.console.web import Asked, Page, add_page

_COLUMNS = (
    "event_id", "happened_at", "action", "cluster", "breach_id", "said_by", "verification", "from_address",
    "database_role", "acknowledged_until", "note", "code", "name", "severity", "found_state",
)  # fmt: skip


def add(router: APIRouter) -> None:
    """`/acknowledgements`"""
    add_page(router, "/acknowledgements", listing)


def listing(asked: Asked) -> Page:
    """What was said, the latest first; of one cluster, or of one of its breaches."""
    cluster, breach = asked.query.get("cluster") or None, asked.query.get("breach") or None
    found = breaches.events(asked.store, cluster=cluster, breach_id=breach, after=asked.after, size=asked.size)
    next_page = asked.links.acknowledgements(cluster=cluster, breach=breach, after=found.after) if found.after else None
    return Page(
        template="acknowledgements.html.j2",
        values={"found": found, "next_page": next_page, "cluster": cluster, "breach_id": breach},
        figures={"acknowledgements": figure(found.rows, *_COLUMNS, next_page=next_page)},
    )
