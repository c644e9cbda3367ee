"""Text that holds names from a snapshot, fit to be shown: what steers a terminal or a protocol is made visible.

In: any text. Out: the same, with control characters, bidirectional marks and lone surrogates as escapes. The rule that
must hold: whatever a topic, a group, a path or an error says stays text; it is shown, not obeyed.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

WIDTH: Final = 118
"""Columns to which text is wrapped."""


def plain(text: object) -> str:
    """On one line."""
    told = str(text)
    return told if told.isprintable() else "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in told)


def unlinked(text: object) -> str:
    """On one line, for a chat: nobody is called by it, and what it holds is no link, whoever renders it.

    A space of no width stands behind what a service would take for a mention, an address or a link's text. Names of
    topics have none of these; those of groups and of transactional ids may be anything.
    """
    return re.sub(r"@(?=\w)|:(?=//)|\](?=\()|<(?=[!@#h])", lambda found: f"{found[0]}\u200b", plain(text))


def paragraph(text: object) -> str:
    """Line by line: of what several lines were written for."""
    return "\n".join(plain(line) for line in str(text).split("\n"))


def plain_values(value: Any, *, paragraphs: Collection[str] = ()) -> Any:
    """What a report or a row holds, with every text in it on one line, but line by line under the names `paragraphs`.

    Of what is put together from many values, some styled by us: a line that is styled already can no longer be told
    from one that a value has styled.
    """
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {
            plain(name) if isinstance(name, str) else name: (
                paragraph(inner)
                if name in paragraphs and isinstance(inner, str)
                else plain_values(inner, paragraphs=paragraphs)
            )
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_values(inner, paragraphs=paragraphs) for inner in value]
    return value
