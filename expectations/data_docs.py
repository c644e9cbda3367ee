"""Data docs: static pages on one run.

In: a report (the object that `report.json` holds) and what Great Expectations said of each invariant. Out:
`index.html`, a page for each invariant, `<code>.html`, and `risks.html`. The rule that must hold: the pages stand
alone. They load nothing, run no script, and show names that others chose (topics, groups, paths) as text and never as
markup.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from tidegauge.expectations.agreement import Validation
from tidegauge.expectations.causes import CAUSES
from tidegauge.expectations.incidents.model import ToldIncident
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE, folder_name
from tidegauge.expectations.verdicts import shown

FAMILIES: Final[Mapping[str, str]] = {
    "A": "Batches and segment files",
    "B": "Derived files and checkpoints",
    "C": "Offsets of a replica",
    "D": "Leader epochs and replicas",
    "E": "Producers and sequences",
    "F": "Transactions",
    "G": "Compaction",
    "H": "Remote storage",
    "J": "Consumer groups",
    "K": "Metadata log",
    "L": "The cluster's own answers",
}
"""A code's first letter -> what its family is about."""

_MOST_BREACHES: Final = 200
"""Breaches that a page shows in full; the report holds all of them."""


def pages_of(report: Mapping[str, Any], validations: Mapping[str, Validation]) -> Iterator[tuple[str, str]]:
    """The pages, each with the name of its file; the index comes last, when the others are there."""
    templates = _templates()
    lines: Sequence[Mapping[str, Any]] = report["invariants"]
    common = {"run": report["run"], "report": report, "names": {line["code"]: line["name"] for line in lines}}
    for line in lines:
        invariant = CATALOGUE.get(line["code"])
        if invariant is None:
            continue  # of a ruleset that had it: the index still lists it
        breaches = [b for b in report["breaches"] if b["code"] == line["code"]]
        page = templates.get_template("invariant.html.j2").render(
            **common,
            line=line,
            invariant=invariant,
            family=_family(line["code"]),
            validation=validations.get(line["code"]),
            breaches=breaches[:_MOST_BREACHES],
            left_out=max(0, len(breaches) - _MOST_BREACHES),
            implied_by_codes={b["breach_id"]: b["code"] for b in report["breaches"]},
            runbook=runbook_html(invariant),
        )
        yield f"{invariant.code}.html", page
    roots = [b for b in report["breaches"] if b["implied_by"] is None]
    # A report of before this was told has none.
    missing = [piece for piece in report["coverage"].get("missing_evidence", ()) if piece["blinds"]]
    incidents: Sequence[ToldIncident] = report.get("incidents", ())  # of which such a report has none, either
    index = templates.get_template("index.html.j2").render(
        **common,
        incidents=incidents[:_MOST_BREACHES],
        incidents_left_out=max(0, len(incidents) - _MOST_BREACHES),
        families=_by_family(lines),
        verdicts=Counter(line["verdict"] for line in lines),
        severities=Counter(b["severity"] for b in report["breaches"]),
        roots=roots[:_MOST_BREACHES],
        left_out=max(0, len(roots) - _MOST_BREACHES),
        consequences=Counter(b["implied_by"] for b in report["breaches"] if b["implied_by"] is not None),
        pages=CATALOGUE.keys(),
        missing=missing,
        blinded={code for piece in missing for code in piece["blinds"]},
    )
    risks: Sequence[Mapping[str, Any]] = report.get("risks", ())
    page = templates.get_template("risks.html.j2").render(
        **common,
        risks=risks[:_MOST_BREACHES],
        left_out=max(0, len(risks) - _MOST_BREACHES),
        postures=report.get("postures", ()),
    )
    yield "risks.html", page
    yield "index.html", index


def runbook_path(invariant: Invariant) -> str:
    """Where its runbook lies, in the repository and in the package."""
    return f"expectations/invariants/{folder_name(invariant.code, invariant.name)}/runbook.md"


def runbook(invariant: Invariant) -> str:
    """The invariant's runbook, Markdown. Raises FileNotFoundError if it has none."""
    folder = folder_name(invariant.code, invariant.name)
    return (files("tidegauge.expectations") / "invariants" / folder / "runbook.md").read_text(encoding="utf-8")


@cache
def runbook_html(invariant: Invariant) -> str:
    """The same as HTML; whatever is markup in it comes out as text."""
    from markdown_it import MarkdownIt

    return str(MarkdownIt("commonmark", {"html": False}).enable("table").render(runbook(invariant)))


def _family(code: str) -> str:
    return FAMILIES.get(code[0], code[0])


def _by_family(lines: Sequence[Mapping[str, Any]]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    families: dict[str, list[Mapping[str, Any]]] = {}
    for line in sorted(lines, key=lambda one: str(one["code"])):
        families.setdefault(_family(line["code"]), []).append(line)
    return families


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tidegauge.expectations", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["causes"] = CAUSES
    environment.filters["shown"] = lambda value, name="": shown(name, value) if value is not None else "unknown"
    environment.filters["place"] = _place
    environment.filters["count"] = lambda value: f"{value:,}" if value is not None else "unknown"
    environment.filters["size"] = _size
    return environment


def _place(subject: Mapping[str, Any]) -> str:
    """A subject in a few words: the partition first, then the rest."""
    rest = dict(subject)
    words = []
    if "topic" in rest and "partition" in rest:
        words.append(f"{shown('', rest.pop('topic'))}-{rest.pop('partition')}")
    words += [f"{name.removesuffix('_id').replace('_', ' ')} {shown(name, value)}" for name, value in rest.items()]
    return ", ".join(words)


def _size(size_bytes: float | None) -> str:
    if size_bytes is None:
        return "unknown"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size_bytes < 1024 or unit == "TiB":
            return f"{size_bytes:,.0f} bytes" if unit == "bytes" else f"{size_bytes:,.1f} {unit}"
        size_bytes /= 1024
    raise AssertionError("the last unit takes any size")
