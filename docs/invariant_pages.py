"""A page for each invariant, lists of them, and how much of the published list the catalogue covers.

In: the catalogue, causes, runbooks. Out: Markdown texts by file name below `docs/invariants/` of the site. Everything
on a page is in the invariant's object, its runbook, or the causes.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from tidegauge.expectations.causes import CAUSES, Rule
from tidegauge.expectations.data_docs import FAMILIES, runbook
from tidegauge.expectations.implications import direct
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE

LISTED: Final[Mapping[str, int]] = {
    "A": 19, "B": 22, "C": 11, "D": 20, "E": 8, "F": 14, "G": 9, "H": 7, "J": 7, "K": 18,
}  # fmt: skip
"""Family -> how many invariants the published list has in it: codes A01 to A19, and so on; 135 in all."""


def pages() -> Iterator[tuple[str, str]]:
    """Every page of the site, the lists too: its file's name and its text."""
    for invariant in CATALOGUE.values():
        yield page_name(invariant), "\n".join(_page(invariant)) + "\n"
    yield "README.md", "\n".join(_index()) + "\n"
    yield "implications.md", "\n".join(_implications()) + "\n"


def _coverage() -> Iterator[str]:
    """How much of the published list is judged, family by family."""
    yield ""
    yield "| family | listed | judged | not judged | judged beside | critical / warning / info |"
    yield "| --- | --- | --- | --- | --- | --- |"
    yield from (f"| {' | '.join(cells)} |" for cells in coverage())


def coverage() -> Iterator[tuple[str, ...]]:
    """Rows: family, how many the published list has and how many are judged, which are not, what is judged beside."""
    total = listed_total = beside_total = 0
    for family, title in FAMILIES.items():
        listed = [f"{family}{number:02d}" for number in range(1, LISTED.get(family, 0) + 1)]
        own = [code for code in CATALOGUE if code.startswith(family)]
        beside = [code for code in own if code not in listed]
        missing = [code for code in listed if code not in CATALOGUE]
        severe = [sum(1 for code in own if CATALOGUE[code].severity == s) for s in ("critical", "warning", "info")]
        total += len(listed) - len(missing)
        listed_total += len(listed)
        beside_total += len(beside)
        yield (
            f"{family}: {title}",
            str(len(listed)),
            str(len(listed) - len(missing)),
            " ".join(missing) or "none",
            " ".join(beside) or "none",
            " / ".join(map(str, severe)),
        )
    counts = [sum(1 for i in CATALOGUE.values() if i.severity == s) for s in ("critical", "warning", "info")]
    severities = " / ".join(map(str, counts))
    yield ("all", str(listed_total), str(total), str(listed_total - total), str(beside_total), severities)


def _page(invariant: Invariant) -> Iterator[str]:
    yield f"# {invariant.code} {invariant.name}"
    yield ""
    yield f"**{plain(invariant.statement)}**"
    yield ""
    yield plain(invariant.because)
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    yield f"| family | {FAMILIES[invariant.code[0]]} |"
    yield f"| key | `{invariant.key}` |"
    yield f"| severity | {invariant.severity.value} |"
    yield f"| judged on | `{invariant.relation}` ([its columns](../reference/relations/{invariant.relation}.md)) |"
    yield f"| Kafka's rule | {_cell(invariant.reference)} |"
    yield f"| evidence | {', '.join(f'`{name}`' for name in invariant.evidence)} |"
    yield f"| since | {invariant.since} |"
    yield ""
    yield "## How it is judged"
    yield ""
    yield "Each row, in this order:"
    yield ""
    yield "| verdict | when |"
    yield "| --- | --- |"
    for verdict, when in _steps(invariant):
        yield f"| {verdict} | {when} |"
    yield from _related(invariant)
    yield from _pointed(invariant)
    yield from _runbook(invariant)


def _steps(invariant: Invariant) -> Iterator[tuple[str, str]]:
    if invariant.applies_when is not None:
        yield "not a subject, unless", _code(invariant.applies_when)
    for unknown in invariant.unknown:
        yield f"unknown: {_cell(unknown.reason)}", _code(unknown.when)
    yield "breached", _code(invariant.breach_when)
    for severity, when in invariant.severity_when:
        yield f"then {severity.value}, not {invariant.severity.value}", _code(when)
    yield "holds", "otherwise; unknown where a value that it needs is missing, or there is no row at all"


def _related(invariant: Invariant) -> Iterator[str]:
    implied = direct(CATALOGUE)
    above = [code for code, codes in implied.items() if invariant.code in codes]
    if not implied[invariant.code] and not above:
        return
    yield ""
    yield "## What it implies"
    yield ""
    if implied[invariant.code]:
        links = _links(implied[invariant.code])
        yield f"A breach of it makes these breaches on the same partition consequences: {links}."
    if above:
        yield f"It is itself a consequence where one of these is breached: {_links(above)}."
    if invariant.consequence_of is not None:
        yield ""
        yield f"It only sums up what {_links([invariant.consequence_of])} tells, so its breach is never a root."


def _pointed(invariant: Invariant) -> Iterator[str]:
    yield ""
    yield "## What it points to"
    yield ""
    for rule in invariant.diagnosis:
        title, when = CAUSES[rule.points_to].title, _conditions(rule)
        yield f"- **{title}**, {when}. {rule.because} Believe: {_believe(rule)}."
    if all(map(_asks, invariant.diagnosis)):
        cause = CAUSES[invariant.points_to]
        yield f"- Otherwise **{cause.title}**: {cause.statement}"


def _conditions(rule: Rule) -> str:
    parts = [
        {"one": "if one replica alone has it", "all": "if every captured replica has it", "any": ""}[rule.on],
        f"with {_links(rule.along)} beside it" if rule.along else "",
        f"without {_links(rule.without)}" if rule.without else "",
        *(f"where `{name}` is known" for name in rule.known),
        *(f"where `{name}` is null" for name in rule.missing),
        *(f"where `{name}` is true" for name in rule.true),
        *(f"where `{a}` is below `{b}`" for a, b in rule.less),
    ]
    return ", ".join(filter(None, parts)) or "where nothing above applies"


def _asks(rule: Rule) -> bool:
    """Whether a rule has any condition."""
    return rule.on != "any" or any((rule.along, rule.without, rule.known, rule.missing, rule.true, rule.less))


def _believe(rule: Rule) -> str:
    return {
        "others": "the other replicas",
        "majority": "the side that more replicas are on",
        "holder": "the follower, which holds what the leader lacks",
        "leader": "the leader",
        "nobody": "nothing can be said",
    }[rule.believe.value]


def _runbook(invariant: Invariant) -> Iterator[str]:
    """The runbook below its title."""
    yield from runbook(invariant).splitlines()[1:]


def _index() -> Iterator[str]:
    yield "# The invariants"
    yield ""
    yield f"{len(CATALOGUE)} invariants, a page each, made from the catalogue."
    yield "[Which breach follows from which](implications.md) is a page of its own."
    yield from _coverage()
    for family, title in FAMILIES.items():
        members = [i for i in CATALOGUE.values() if i.code[0] == family]
        if not members:
            continue
        yield ""
        yield f"## {family}: {title}"
        yield ""
        yield "| code | invariant | severity | what must hold |"
        yield "| --- | --- | --- | --- |"
        for i in members:
            yield f"| {i.code} | [{i.name}]({page_name(i)}) | {i.severity.value} | {_cell(plain(i.statement))} |"


def _implications() -> Iterator[str]:
    yield "# Which breach follows from which"
    yield ""
    yield "Where a breach on the left is found, breaches on the right of the same partition (and the same broker or"
    yield "election, where both name one) are listed under it as its consequences, and so is what follows from these."
    yield "No breach is a consequence of itself."
    yield ""
    yield "| breach | makes these consequences |"
    yield "| --- | --- |"
    for code, codes in direct(CATALOGUE).items():
        if codes:
            invariant = CATALOGUE[code]
            yield f"| [{code} {invariant.name}]({page_name(invariant)}) | {_links(codes)} |"


def page_name(invariant: Invariant) -> str:
    """An invariant's page."""
    return f"{invariant.code}-{invariant.name}.md"


def _links(codes: tuple[str, ...] | list[str]) -> str:
    """Codes as links; one that the catalogue does not have yet, as it is."""
    return ", ".join(f"[{c}]({page_name(CATALOGUE[c])})" if c in CATALOGUE else c for c in codes)


def _code(sql: str) -> str:
    """SQL in a table's cell."""
    return f"`{_cell(' '.join(sql.split()))}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def plain(text: str) -> str:
    """Text in which Markdown finds no tags."""
    return text.replace("<", "&lt;").replace(">", "&gt;")
