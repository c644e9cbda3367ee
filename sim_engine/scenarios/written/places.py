"""YAML as a tree in which everything knows its line.

In: the text of a file. Out: `Place`. Only what stands there is taken: mappings, lists and plain words; no tags, anchors
or aliases, no key twice, nothing deep or large. What a word means is for those who ask: `yes`, `1:30` or `0777` mean
nothing by themselves. Each error is one sentence or two: file, line, where, what is wrong, what to do.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar

import yaml

from tidegauge.snapshots.errors import SnapshotError

T = TypeVar("T")

LONGEST_BYTES: Final = 262_144
DEEPEST: Final = 12
"""Levels of lists and mappings; the form needs six."""
LARGEST_NUMBER: Final = 2**62
_SHOWN: Final = 60
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_DURATION: Final = re.compile(r"(0|[1-9][0-9]{0,11})(ms|s|min|h)")
_MS: Final = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000}
_RANGE: Final = re.compile(r"(0|[1-9][0-9]{0,17})\.\.(0|[1-9][0-9]{0,17})?")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class ScenarioFileError(SnapshotError):
    """The file cannot be played as it is; trying again would not help."""


@dataclass(slots=True)
class _Node:
    """A word (`text`), a list (`items`) or a mapping (`pairs`, by key: the key's line and the value)."""

    line: int
    text: str | None = None
    quoted: bool = False
    items: "list[_Node] | None" = None
    pairs: "dict[str, tuple[int, _Node]] | None" = None
    key: "_Node | None" = None
    """Of a mapping that is being read: the key whose value comes next."""


@dataclass(frozen=True, slots=True)
class Place:
    """One thing in a file: what it is, where it stands, and how to read it strictly."""

    file: str
    path: str
    line: int
    _node: _Node = field(repr=False)

    def error(self, problem: str) -> ScenarioFileError:
        """An error that begins with the place."""
        where = f", {self.path}" if self.path else ""
        return ScenarioFileError(f"{self.file}, line {self.line}{where}: {problem}")

    def mapping(self, required: Collection[str], optional: Collection[str] = ()) -> Mapping[str, "Place"]:
        """The values of a mapping that has all of the required keys, and no other but the optional ones."""
        found = self.named()
        known = (*required, *optional)
        for key, place in found.items():
            if key not in known:
                near = get_close_matches(key, known, n=1)
                told = f"Did you mean {near[0]}?" if near else f"Known here: {', '.join(known)}."
                raise Place(self.file, self.path, place.line, place._node).error(f"{_cited(key)} means nothing. {told}")
        missing = [key for key in required if key not in found]
        if missing:
            raise self.error(f"{', '.join(missing)} is missing. Add it.")
        return found

    def named(self) -> Mapping[str, "Place"]:
        """The values of a mapping, whatever its keys are."""
        if self._node.pairs is None:
            raise self.error(f"wants a mapping, lines of `key: value`, and is {self._shown()}.")
        above = f"{self.path}." if self.path else ""
        return {key: Place(self.file, f"{above}{key}", line, node) for key, (line, node) in self._node.pairs.items()}

    def items(self, most: int) -> "list[Place]":
        """The items of a list: at least one, and not more than so many."""
        nodes = self._node.items
        if nodes is None:
            raise self.error(f"wants a list, such as [a, b], and is {self._shown()}.")
        if not nodes:
            raise self.error("is an empty list. Name something, or leave the key out.")
        if len(nodes) > most:
            raise self.error(f"has {len(nodes):,} items; at most {most:,} are played.")
        return [Place(self.file, f"{self.path}[{n}]", node.line, node) for n, node in enumerate(nodes)]

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return self._node.items is not None

    @property
    def is_mapping(self) -> bool:
        """Whether it is a mapping."""
        return self._node.pairs is not None

    def text(self, most: int = 4_000) -> str:
        """Words as they stand."""
        text = self._node.text
        if text is None or not text.strip():
            raise self.error(f"wants words, and is {self._shown()}.")
        if len(text) > most:
            raise self.error(f"has {len(text):,} characters; at most {most:,} are kept.")
        if any(ord(character) < 32 and character not in "\n\t" for character in text):
            raise self.error("holds a control character. Write plain words.")
        return text.strip()

    def name(self) -> str:
        """A name of small letters, digits and hyphens: it may name a directory."""
        text = self._node.text
        if text is None or not _NAME.fullmatch(text):
            raise self.error(f"wants a name of small letters, digits and hyphens, at most 63, and is {self._shown()}.")
        return text

    def whole(self, low: int = 0, high: int = LARGEST_NUMBER) -> int:
        """A whole number in these bounds."""
        text = self._node.text
        if text is None or self._node.quoted or not _NUMBER.fullmatch(text):
            raise self.error(f"wants a whole number, such as {low}, and is {self._shown()}.")
        number = int(text)
        if not low <= number <= high:
            raise self.error(f"is {number:,}; it may be {low:,} to {high:,}.")
        return number

    def duration(self, most_ms: int, least_ms: int = 0) -> int:
        """A time, in milliseconds."""
        text = self._node.text
        found = _DURATION.fullmatch(text) if text is not None else None
        if found is None:
            raise self.error(f"wants a time with its unit (500ms, 8s, 2min, 1h), and is {self._shown()}.")
        time_ms = int(found[1]) * _MS[found[2]]
        if not least_ms <= time_ms <= most_ms:
            raise self.error(f"is {text}; it may be {shown_ms(least_ms)} to {shown_ms(most_ms)}.")
        return time_ms

    def span(self, *, open_end: bool = False) -> tuple[int, int | None]:
        """`A..B`, both included, as [start, end); with `open_end` also `A..`, whose end is not told."""
        text = self._node.text
        found = _RANGE.fullmatch(text) if text is not None else None
        if found is None or (found[2] is None and not open_end):
            raise self.error(f"wants numbers as A..B, both included, such as 100..200, and is {self._shown()}.")
        first, last = int(found[1]), int(found[2]) if found[2] is not None else None
        if last is not None and last < first:
            raise self.error(f"{text} ends before it begins. Write the lower number first.")
        return first, last + 1 if last is not None else None

    def closed_span(self) -> tuple[int, int]:
        """`A..B`, both included, as [start, end)."""
        start, end = self.span()
        assert end is not None
        return start, end

    def flag(self) -> bool:
        """True or false."""
        return self.one_of({"true": True, "false": False})

    def one_of(self, choices: Mapping[str, T]) -> T:
        """What one of these words stands for."""
        text = self._node.text
        if text is None or text not in choices:
            near = get_close_matches(text or "", choices, n=1)
            told = f" Did you mean {near[0]}?" if near else ""
            raise self.error(f"wants {_either(choices)}, and is {self._shown()}.{told}")
        return choices[text]

    def _shown(self) -> str:
        if self._node.pairs is not None:
            return "a mapping"
        if self._node.items is not None:
            return "a list"
        return _cited(self._node.text) if self._node.text else "empty"


def root_of(text: str, file: str) -> Place:
    """The whole of a file. Raises `ScenarioFileError` for what is no YAML, or more of it than is wanted."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    stack: list[_Node] = []
    root: _Node | None = None
    try:
        for event in yaml.parse(text, Loader=loader):
            line = event.start_mark.line + 1 if event.start_mark is not None else 1
            _refuse(event, file, line)
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                raise ScenarioFileError(f"{file}, line {line}: a second document begins. A file holds one scenario.")
            if isinstance(event, yaml.CollectionEndEvent):
                stack.pop()
                continue
            node = _made(event, line)
            if node is None:
                continue
            root = root or node
            if stack:
                _put(stack[-1], node, file)
            if node.text is None:
                if len(stack) == DEEPEST:
                    raise ScenarioFileError(
                        f"{file}, line {line}: lists and mappings are nested deeper than {DEEPEST} levels. "
                        "No scenario needs that."
                    )
                stack.append(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        said = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        raise ScenarioFileError(
            f"{file}{where}: this is not YAML ({said}). Look at that line and the one above."
        ) from error
    if root is None:
        raise ScenarioFileError(f"{file} is empty. A scenario has cluster, topics and play.")
    return Place(file, "", root.line, root)


def read_text(path: Path) -> str:
    """A file's text, not more than a scenario may have. Raises `ScenarioFileError`."""
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST_BYTES + 1)
    except OSError as error:
        raise ScenarioFileError(f"{path}: {error.strerror}. Name a scenario file that can be read.") from error
    if len(data) > LONGEST_BYTES:
        raise ScenarioFileError(
            f"{path} is larger than {LONGEST_BYTES // 1024} KiB. Say less: numbers: 0..9999 is one line."
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScenarioFileError(f"{path}, line {line}: this is not UTF-8 text. Save the file as UTF-8.") from error


def shown_ms(time_ms: int) -> str:
    """A time as a file would say it."""
    unit = next(unit for unit in ("h", "min", "s", "ms") if time_ms % _MS[unit] == 0)
    return f"{time_ms // _MS[unit]}{unit}" if time_ms else "0s"


def _refuse(event: yaml.Event, file: str, line: int) -> None:
    what = ""
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
        what = "an anchor or an alias (& or *)"
    elif getattr(event, "tag", None) is not None:
        what = "a tag (!)"
    if what:
        raise ScenarioFileError(f"{file}, line {line}: {what} is not read here. Write out what is meant.")


def _made(event: yaml.Event, line: int) -> _Node | None:
    if isinstance(event, yaml.ScalarEvent):
        return _Node(line, text=event.value, quoted=event.style is not None and event.style not in ("", "|", ">"))
    if isinstance(event, yaml.SequenceStartEvent):
        return _Node(line, items=[])
    if isinstance(event, yaml.MappingStartEvent):
        return _Node(line, pairs={})
    return None


def _put(above: _Node, node: _Node, file: str) -> None:
    if above.items is not None:
        above.items.append(node)
        return
    assert above.pairs is not None
    if above.key is not None:
        assert above.key.text is not None
        above.pairs[above.key.text] = (above.key.line, node)
        above.key = None
        return
    if node.text is None:
        raise _wrong(file, node.line, "a key is a list or a mapping. Keys are words")
    if node.text in above.pairs:
        first = above.pairs[node.text][0]
        raise _wrong(file, node.line, f"{_cited(node.text)} stands twice, first on line {first}. Leave one of them")
    above.key = node


def _wrong(file: str, line: int, problem: str) -> ScenarioFileError:
    return ScenarioFileError(f"{file}, line {line}: {problem}.")


def _cited(text: str | None) -> str:
    text = text or ""
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return repr(shown)


def _either(choices: Collection[str]) -> str:
    *before, last = choices
    return f"{', '.join(before)} or {last}" if before else last
