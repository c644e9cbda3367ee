"""Text that is written over several lines, and means one.

In: a text in triple quotes, indented as the code around it. Out: `line`, its words on one line; `lines`, each of its
lines on one. Only white space changes.
"""


def line(text: str) -> str:
    """The words of a text, on one line."""
    return " ".join(text.split())


def lines(text: str) -> tuple[str, ...]:
    """The lines of a text; one that is indented further than the first goes on with the line before it."""
    written = [each for each in text.splitlines() if each.strip()]
    margin = _indent(written[0])
    found: list[list[str]] = []
    for each in written:
        if _indent(each) > margin:
            found[-1].append(each)
        else:
            found.append([each])
    return tuple(line(" ".join(parts)) for parts in found)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
