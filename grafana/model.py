"""What a dashboard is made of: `panels` says what is shown, and `generate` makes it what Grafana reads."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: `width` and `height` in Grafana's grid of 24 columns; panels follow one another as text does."""

    title: str
    kind: str
    sql: str
    about: str = ""
    width: int = 12
    height: int = 8
    unit: str | None = None
    bad_from: float | None = None
    """The value from which it is red; below it is green."""
    links: tuple[tuple[str, str, str], ...] = ()
    """Columns that lead somewhere: column, what it says, URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """What happened, on the axis of every chart of a page: columns time, text and tags, and timeend where it lasted."""

    name: str
    colour: str
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """One page: a fixed uid, by which others link to it, what is chosen at its top, its panels."""

    uid: str
    title: str
    about: str
    variables: tuple[tuple[str, str], ...]
    """Name and the query of its values; a later one may ask about an earlier one."""
    panels: tuple[Panel, ...]
    annotations: tuple[Annotation, ...] = ()
    span: str = "now-30d"
    tags: tuple[str, ...] = field(default=("tidegauge", "kafka"))
