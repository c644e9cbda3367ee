"""Shell blocks of the documents: Markdown in, the commands and the output that it shows out.

A block fenced as `sh` is meant to be typed as it stands, so it has no prompt and no gap; a block fenced as `text` is
what such commands print, line by line, though not every line of it.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from tidegauge.cli import main as cli

ROOT: Final = Path(__file__).parents[2]
DOCUMENTS: Final = tuple(
    sorted(
        str(path.relative_to(ROOT))
        for pattern in (
            "*.md",
            "docs/*.md",
            "docs/concepts/*.md",
            "docs/guides/*.md",
            "helm/*.md",
            "grafana/*.md",
            "benchmarks/*.md",
        )
        for path in ROOT.glob(pattern)
    )
)

_OF_ALL: Final = re.compile(
    r"\d+(?= invariants: )|(?<= invariants: )\d+(?= hold)|\d+(?= are not known\.)|\d+(?= verdicts open)"
)
_BLOCK: Final = re.compile(r"^```(sh|sql|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_BETWEEN: Final = frozenset({"|", "||", "&&", ";", "&", "(", ")"})


def blocks(text: str, language: str) -> list[str]:
    """The bodies of the fenced blocks of one language."""
    return [body for found, body in _BLOCK.findall(text) if found == language]


def without_totals(text: str) -> str:
    """What is printed, but for the counts of all invariants: a new one is a folder, and makes no document wrong."""
    return _OF_ALL.sub("…", text)


def commands(script: str, program: str) -> Iterator[list[str]]:
    """Each call of a program in a shell script, as words; variables before it and redirections left out."""
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word not in _BETWEEN:
                words.append(word)
                continue
            while words and _ASSIGNMENT.match(words[0]):
                words.pop(0)
            if words and words[0] == program:
                yield _without_redirections(words)
            words = []


def _without_redirections(words: list[str]) -> list[str]:
    signs = {at for at, word in enumerate(words) if set(word) <= {"<", ">", "&"}}
    of_sign = signs | {at + 1 for at in signs} | {at - 1 for at in signs if words[at - 1].isdigit()}
    return [word for at, word in enumerate(words) if at not in of_sign]


def refused(words: list[str]) -> str | None:
    """Why the command line would not take a command: an option, an argument or a choice that there is not."""
    command: click.Command = cli.main
    context = click.Context(command, info_name=words[0])
    rest = [word for word in words[1:] if word != "--debug"]
    try:
        while isinstance(command, click.Group):
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None
            command, context = found, click.Context(found, info_name=name, parent=context, **found.context_settings)
        if not {"-h", "--help"} & set(rest):
            command.parse_args(context, rest)
    except click.UsageError as error:
        return f"{shlex.join(words)}: {error.format_message()}"
    return None
