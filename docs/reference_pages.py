"""The reference that the code already says: a page for each command and each relation, and the tables beside them.

In: the command line, `RELATIONS`, `VARIABLES`, the store's views, the schema of TRUTH.json. Out: Markdown: whole pages
by file name (`command_pages`, `relation_pages`), and lines of a table each (the other public functions).
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, takewhile
from pathlib import Path
from typing import Final

import click
from invariant_pages import plain

from tidegauge.cli.main import main as command_line
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.relations import COMMON, LOSSES, RELATIONS, Column, Relation
from tidegauge.settings import VARIABLES
from tidegauge.sim_engine.rendering import truth_schema
from tidegauge.sim_engine.scenarios.written.steps import WORDS

VIEWS: Final = Path(__file__).resolve().parents[1] / "sql" / "views"
RELATIONS_AND_LOSSES: Final = (*RELATIONS.values(), LOSSES)


def table(*columns: str) -> Callable[[Iterable[tuple[str, ...]]], Iterator[str]]:
    """A Markdown table with these headings: rows in, lines out."""

    def lines(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
        for cells in (columns, ("---",) * len(columns), *rows):
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return lines


# ------------------------------------------------------------------------------------------------------------ commands


def command_paths(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and all below it, each with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from command_paths(command.commands[name], (*path, name))


def runnable() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something itself, with its words."""
    for path, command in command_paths(command_line, ("tidegauge",)):
        if not isinstance(command, click.Group):
            yield path, command


def command_pages() -> Iterator[tuple[str, str]]:
    """A page for each first word of the command line: its file's name and its text."""
    for word, members in groupby(runnable(), key=lambda found: found[0][1]):
        lines = [f"# tidegauge {word}", ""]
        for path, command in members:
            lines += _command(path, command)
        yield f"{word}.md", "\n".join(lines).rstrip("\n") + "\n"


def _command(path: tuple[str, ...], command: click.Command) -> Iterator[str]:
    arguments = [_metavar(p, command) for p in command.params if isinstance(p, click.Argument)]
    if len(path) > 2:
        yield f"## {' '.join(path)}"
        yield ""
    options = [p for p in command.params if isinstance(p, click.Option)]
    yield f"    {' '.join([*path, *arguments, *(['[OPTIONS]'] if options else [])])}"
    yield ""
    for paragraph in _help(command):
        yield plain(paragraph)
        yield ""
    if options:
        yield from table("option", "without it", "meaning")(_option_row(option) for option in options)
        yield ""


def _help(command: click.Command) -> list[str]:
    """The paragraphs of a command's help, a line each."""
    return [" ".join(paragraph.split()) for paragraph in (command.help or "").split("\f")[0].split("\n\n")]


def _metavar(argument: click.Argument, command: click.Command) -> str:
    return argument.make_metavar(click.Context(command))


def _option_row(option: click.Option) -> tuple[str, ...]:
    names = f"`{', '.join(option.opts)}`"
    if isinstance(option.type, click.Choice):
        names += " " + ", ".join(f"`{choice}`" for choice in option.type.choices)
    if option.required:
        without = "required"
    elif option.show_default and option.default is not None:
        without = f"`{option.default}`"
    else:
        without = ""
    return (names, without, plain(option.help or ""))


def commands() -> Iterator[str]:
    """A row for each command: a link to its page, and what it does in a sentence."""
    rows = (
        (f"[`{' '.join(path)}`]({path[1]}.md{_anchor(path)})", plain(command.get_short_help_str(limit=200)))
        for path, command in runnable()
    )
    yield from table("command", "what it does")(rows)


def _anchor(path: tuple[str, ...]) -> str:
    return f"#{'-'.join(path)}" if len(path) > 2 else ""


# ----------------------------------------------------------------------------------------------------------- relations


def relation_pages() -> Iterator[tuple[str, str]]:
    """A page for each relation, its grain, its key and its columns: its file's name and its text."""
    for relation in RELATIONS_AND_LOSSES:
        yield f"{relation.name}.md", "\n".join(_relation(relation)) + "\n"


def _relation(relation: Relation) -> Iterator[str]:
    judged = sorted(i.code for i in CATALOGUE.values() if i.relation == relation.name)
    yield f"# {relation.name}"
    yield ""
    yield f"One row per {relation.grain}. Key: {', '.join(f'`{k}`' for k in relation.key)}."
    if judged:
        yield f"Judged by {', '.join(judged)}."
    yield ""
    columns = ", ".join(f"`{c.name}`" for c in COMMON)
    yield f"It begins with the columns [that every relation has](README.md): {columns}."
    yield ""
    yield from table("column", "type", "meaning")(map(_column_row, relation.columns))


def _column_row(column: Column) -> tuple[str, ...]:
    return (f"`{column.name}`", column.type, plain(column.meaning))


def common() -> Iterator[str]:
    """The columns that every relation begins with."""
    yield from table("column", "type", "meaning")(map(_column_row, COMMON))


def relations() -> Iterator[str]:
    """A row for each relation: a link to its page, what a row is, how many columns it has, and where all rows are."""
    rows = (
        (f"[`{r.name}`]({r.name}.md)", plain(r.grain), str(len(r.columns)), "all" if r.shown else "")
        for r in RELATIONS_AND_LOSSES
    )
    yield from table("relation", "one row per", "columns", "in the store")(rows)


# -------------------------------------------------------------------------------------------------------------- tables


def settings() -> Iterator[str]:
    """Every environment variable."""
    rows = (
        (f"`{v.name}`", f"`{v.default}`" if _is_literal(v.default) else v.default or "nothing", v.meaning)
        for v in VARIABLES
    )
    yield from table("variable", "without it", "meaning")(rows)


def _is_literal(default: str) -> bool:
    return bool(default) and " " not in default


def views() -> Iterator[str]:
    """Every view of the store, with the comment that its definition begins with."""
    yield from table("view", "what it shows")(map(_view_row, sorted(VIEWS.glob("*.sql"))))


def _view_row(path: Path) -> tuple[str, ...]:
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = [line.removeprefix("--").strip() for line in takewhile(lambda line: line.startswith("--"), lines)]
    return (f"`{path.stem.split('_', 1)[1]}`", plain(" ".join(comment)))


def truth() -> Iterator[str]:
    """What the keys of TRUTH.json hold."""
    yield from truth_schema.markdown().splitlines()


def steps() -> Iterator[str]:
    """Every word of a scenario file's steps."""
    yield from table("word", "keys it needs", "keys it may have", "meaning")(
        (f"`{name}`", _keys(word.required), _keys(word.optional), word.about) for name, word in WORDS.items()
    )


def _keys(keys: tuple[str, ...]) -> str:
    return ", ".join(f"`{key}`" for key in keys)
