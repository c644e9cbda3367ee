"""The parts of the documents that the code already says: catalogue, settings, commands, relations.

In: `CATALOGUE`, `VARIABLES`, the command line, `RELATIONS`, the store's views. Out: the text between
`<!-- generated: NAME -->` and `<!-- end of NAME -->` in the documents of `PARTS`, and the pages of
docs/invariants/. The rule that must hold: everything outside these marks and that folder is left as it is, and running
it twice changes nothing.

    python docs/generate.py            writes the parts anew
    python docs/generate.py --check    writes nothing; exit status 1 if a part is stale
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Final

import click

from expectations.data_docs import FAMILIES
from expectations.registry import CATALOGUE
from sim_engine.rendering import truth_schema
from spark_jobs.relations import COMMON, LOSSES, RELATIONS, Column, Relation
from tidegauge.cli import main as command_line
from tidegauge.scoring.explored import Explored
from tidegauge.scoring.explored import table as explored_table
from tidegauge.scoring.score import from_json
from tidegauge.scoring.table import by_fault, by_invariant, impossible, summary
from tidegauge.settings import VARIABLES

sys.path.insert(0, str(Path(__file__).parent))
import invariant_pages

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = "docs/invariants"


def table(*columns: str) -> Callable[[Iterator[tuple[str, ...]]], Iterator[str]]:
    """A Markdown table with these headings: rows in, lines out."""

    def lines(rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
        for cells in (columns, ("---",) * len(columns), *rows):
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return lines


def families() -> Iterator[str]:
    """A row for each family of invariants: how many there are, and how many of them are critical."""
    yield from table("family", "invariants", "critical")(_family_rows())


def _family_rows() -> Iterator[tuple[str, ...]]:
    for family, title in (*FAMILIES.items(), ("", "all")):
        members = [invariant for code, invariant in CATALOGUE.items() if code.startswith(family)]
        critical = sum(1 for invariant in members if invariant.severity == "critical")
        yield f"{family}: {title}".removeprefix(": "), str(len(members)), str(critical)


def _plain(text: str) -> str:
    """Text in which Markdown finds no tags."""
    return text.replace("<", "&lt;").replace(">", "&gt;")


def settings() -> Iterator[str]:
    """Every environment variable."""
    rows = (
        (f"`{v.name}`", f"`{v.default}`" if _is_literal(v.default) else v.default or "nothing", v.meaning)
        for v in VARIABLES
    )
    yield from table("variable", "without it", "meaning")(rows)


def _is_literal(default: str) -> bool:
    return bool(default) and " " not in default


def commands() -> Iterator[str]:
    """Every command of the command line: what it does, its arguments and options."""
    for path, command in command_paths(command_line, ("tidegauge",)):
        if isinstance(command, click.Group):
            continue
        arguments = [_metavar(p, command) for p in command.params if isinstance(p, click.Argument)]
        yield f"### `{' '.join([*path, *arguments])}`"
        yield ""
        yield _plain(" ".join((command.help or "").split("\f")[0].split()))
        yield ""
        options = [p for p in command.params if isinstance(p, click.Option)]
        if options:
            yield from table("option", "without it", "meaning")(_option_row(option) for option in options)
            yield ""


def command_paths(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and all below it, each with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from command_paths(command.commands[name], (*path, name))


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
    return (names, without, option.help or "")


def relations() -> Iterator[str]:
    """Every relation: its grain, its key, and its columns with type and meaning."""
    common = ", ".join(f"`{c.name}` ({c.meaning})" for c in COMMON)
    yield f"Every relation begins with {common}."
    for relation in (*RELATIONS.values(), LOSSES):
        judged = sorted(i.code for i in CATALOGUE.values() if i.relation == relation.name)
        yield ""
        yield f"### `{relation.name}`"
        yield ""
        yield f"One row per {relation.grain}. Key: {', '.join(f'`{k}`' for k in relation.key)}."
        if judged:
            yield f"Judged by {', '.join(judged)}."
        yield ""
        yield from _column_table(relation)


def _column_table(relation: Relation) -> Iterator[str]:
    def row(column: Column) -> tuple[str, ...]:
        return (f"`{column.name}`", column.type, _plain(column.meaning))

    yield from table("column", "type", "meaning")(map(row, relation.columns))


def views() -> Iterator[str]:
    """Every view of the store, with the comment that its definition begins with."""
    yield from table("view", "what it shows")(map(_view_row, sorted((ROOT / "sql" / "views").glob("*.sql"))))


def _view_row(path: Path) -> tuple[str, ...]:
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = [line.removeprefix("--").strip() for line in takewhile(lambda line: line.startswith("--"), lines)]
    return (f"`{path.stem.split('_', 1)[1]}`", _plain(" ".join(comment)))


def truth() -> Iterator[str]:
    """What the keys of TRUTH.json hold."""
    yield from truth_schema.markdown().splitlines()


def score() -> Iterator[str]:
    """The last score that `benchmarks/score.py --write` kept."""
    kept = json.loads((ROOT / "docs" / "score.json").read_text(encoding="utf-8"))
    measured = from_json(kept["score"])
    yield from summary(measured)
    for title, of_measured in (("By invariant", by_invariant), ("By kind of fault", by_fault), (_UNSEEN, impossible)):
        yield from _folded(title, of_measured(measured))
    if kept["explored"]:
        yield ""
        yield "Every state that the five models of Kafka's truncation reach, rendered as log directories and audited:"
        yield ""
        reached = [Explored(**{**each, "constants": tuple(each["constants"])}) for each in kept["explored"]]
        yield from explored_table(reached)
    yield ""
    minutes = kept["seconds"] / 60
    yield f"`{kept['command']}`; {measured.snapshots:,} snapshots took {minutes:,.0f} minutes on two cores."


def _folded(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield ""
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"


_UNSEEN: Final = "What no file tells, whoever looks"

PARTS: Final[Mapping[str, Mapping[str, Callable[[], Iterator[str]]]]] = {
    "README.md": {"families": families},
    "docs/accuracy.md": {"score": score},
    "docs/reference.md": {
        "commands": commands,
        "relations": relations,
        "settings": settings,
        "truth": truth,
        "views": views,
    },
}
"""Document -> name of a part -> what makes it."""


def renewed(text: str, parts: Mapping[str, Callable[[], Iterator[str]]]) -> str:
    """A document's text with its generated parts made anew. Raises ValueError where a part has no place in it."""
    for name, make in parts.items():
        place = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        body = "\n".join(make()).strip("\n") + "\n"
        text, places = place.subn(lambda found, body=body: found[1] + body + found[2], text)
        if places != 1:
            raise ValueError(f"the part {name} has {places} places in the document, not one")
    return text


def stale() -> list[str]:
    """The documents whose generated parts are not what the code says today."""
    return [name for name, parts in PARTS.items() if _read(name) != renewed(_read(name), parts)] + stale_pages()


def stale_pages() -> list[str]:
    """The invariants' pages that are missing, left over, or not what the catalogue says today."""
    folder, wanted = ROOT / PAGES, dict(invariant_pages.pages())
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    return [f"{PAGES}/{name}" for name in sorted(found.keys() | wanted.keys()) if found.get(name) != wanted.get(name)]


def _write_pages() -> None:
    folder, wanted = ROOT / PAGES, dict(invariant_pages.pages())
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def main() -> int:
    """Write or check; return the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true", help="write nothing, say what is stale")
    if arguments.parse_args().check:
        for name in stale():
            print(f"{name} is stale: run python docs/generate.py")
        return 1 if stale() else 0
    for name, parts in PARTS.items():
        text = renewed(_read(name), parts)
        (ROOT / name).write_text(text, encoding="utf-8")
    _write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
