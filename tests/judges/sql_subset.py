"""The catalogue's SQL, read and evaluated in Python: an expression in, its value for a row out.

Written from the SQL standard's three-valued logic and PostgreSQL's manual (chapters 4.1.6 and 9), without a look at
`expectations.verdicts`: it is one half of a judge that shares nothing with the other. Whatever the catalogue does not
use is refused, so a predicate in new words fails a test instead of being half understood.

    or:          and (OR and)*
    and:         not (AND not)*
    not:         NOT not | tested
    tested:      comparison (IS [NOT] (NULL | TRUE | FALSE))*
    comparison:  matched [(= | <> | < | <= | > | >=) (matched | ANY(or))]
    matched:     overlaid [[NOT] (IN (or, ...) | LIKE sum | BETWEEN sum AND sum)]
    overlaid:    sum [&& sum]
    sum:         product ((+ | -) product)*
    product:     part ((*) part)*
    part:        -part | atom [ [or] ]
    atom:        number | 'text' | name | "name" | name(or, ...) | (or) | CASE (WHEN or THEN or)+ [ELSE or] END

A value is None (null), bool, int, str, or a list of these. Whole numbers have no bounds.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Value = Any
Row = Mapping[str, Value]
Evaluated = Callable[[Row], Value]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+)|'(?P<text>(?:[^']|'')*)'|\"(?P<quoted>[^\"]+)\"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<sign><>|<=|>=|&&|[-+*=<>(),\[\]]))"
)
_KEYWORDS = frozenset(
    {"AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "CASE", "WHEN", "THEN", "ELSE", "END", "IN", "LIKE", "BETWEEN"}
    | {"ANY"}
)
_COMPARED: Mapping[str, Callable[[Value, Value], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_COUNTED: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


class SubsetError(Exception):
    """The text is not of the subset, or the values do not fit the operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A parsed expression."""

    value: Evaluated
    columns: tuple[str, ...]
    """The columns in it, in the order of the text, each once."""
    constants: frozenset[int | str]
    """The numbers and texts in it."""


@cache
def parsed(sql: str) -> Expression:
    """Raises `SubsetError`."""
    reader = _Reader(tokens=_tokens(sql))
    value = reader.either()
    if reader.kind:
        raise SubsetError(f"{reader.word} follows where the expression ends: {sql}")
    return Expression(value=value, columns=tuple(dict.fromkeys(reader.columns)), constants=frozenset(reader.constants))


def _tokens(sql: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while sql[at:].strip():
        match = _TOKEN.match(sql, at)
        if match is None:
            raise SubsetError(f"not of the subset: {sql[at:]}")
        kind = str(match.lastgroup)
        word = match[kind]
        if kind == "word" and word.upper() in _KEYWORDS:
            kind, word = "keyword", word.upper()
        found.append((kind, word))
        at = match.end()
    return [*found, ("", "")]


@dataclass(slots=True)
class _Reader:
    """Recursive descent: a method a rule of the grammar above, which returns how its value is found in a row."""

    tokens: list[tuple[str, str]]
    at: int = 0
    columns: list[str] = field(default_factory=list)
    constants: set[int | str] = field(default_factory=set)

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def word(self) -> str:
        return self.tokens[self.at][1]

    def take(self, *words: str) -> str | None:
        """The next keyword or sign, if it is one of these."""
        if self.kind in ("keyword", "sign") and self.word in words:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def expect(self, word: str) -> None:
        if self.take(word) is None:
            raise SubsetError(f"{word} expected, {self.word or 'the end'} found")

    def either(self) -> Evaluated:
        parts = [self.both()]
        while self.take("OR"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else lambda row: _any(part(row) for part in parts)

    def both(self) -> Evaluated:
        parts = [self.negated()]
        while self.take("AND"):
            parts.append(self.negated())
        return parts[0] if len(parts) == 1 else lambda row: _not(_any(_not(part(row)) for part in parts))

    def negated(self) -> Evaluated:
        if self.take("NOT"):
            inner = self.negated()
            return lambda row: _not(inner(row))
        return self.tested()

    def tested(self) -> Evaluated:
        value = self.compared()
        while self.take("IS"):
            value = self._is(value, negated=self.take("NOT") is not None)
        return value

    def _is(self, inner: Evaluated, *, negated: bool) -> Evaluated:
        wanted = {"NULL": None, "TRUE": True, "FALSE": False}
        word = self.take(*wanted)
        if word is None:
            raise SubsetError(f"IS {self.word}")
        return lambda row: (inner(row) is wanted[word]) is not negated

    def compared(self) -> Evaluated:
        left = self.matched()
        if (sign := self.take(*_COMPARED)) is None:
            return left
        if self.take("ANY"):
            self.expect("(")
            array = self.either()
            self.expect(")")
            return lambda row: _of_any(sign, left(row), array(row))
        right = self.matched()
        return lambda row: _compare(sign, left(row), right(row))

    def matched(self) -> Evaluated:
        left = self.overlaid()
        negated = self.kind == "keyword" and self.word == "NOT"
        self.at += negated
        if self.take("IN"):
            self.expect("(")
            members = self.listed()
            value: Evaluated = lambda row: _any(_compare("=", left(row), one(row)) for one in members)  # noqa: E731
        elif self.take("LIKE"):
            pattern = self.sum()
            value = lambda row: _like(left(row), pattern(row))  # noqa: E731
        elif self.take("BETWEEN"):
            low = self.sum()
            self.expect("AND")
            high = self.sum()
            value = lambda row: _not(  # noqa: E731
                _any((_compare("<", left(row), low(row)), _compare(">", left(row), high(row))))
            )
        elif negated:
            raise SubsetError(f"NOT {self.word}")
        else:
            return left
        return (lambda row: _not(value(row))) if negated else value

    def overlaid(self) -> Evaluated:
        left = self.sum()
        if not self.take("&&"):
            return left
        right = self.sum()
        return lambda row: _overlap(left(row), right(row))

    def sum(self) -> Evaluated:
        return self._counted(self.product, "+", "-")

    def product(self) -> Evaluated:
        return self._counted(self.part, "*")

    def _counted(self, operand: Callable[[], Evaluated], *signs: str) -> Evaluated:
        value = operand()
        while (sign := self.take(*signs)) is not None:
            value = _applied(_COUNTED[sign], value, operand())
        return value

    def part(self) -> Evaluated:
        if self.take("-"):
            return _applied(_COUNTED["-"], lambda _: 0, self.part())
        value = self.atom()
        if self.take("["):
            index = self.either()
            self.expect("]")
            return lambda row: _element(value(row), index(row))
        return value

    def atom(self) -> Evaluated:
        if self.take("("):
            value = self.either()
            self.expect(")")
            return value
        if self.take("CASE"):
            return self.case()
        if (constant := self.take("NULL", "TRUE", "FALSE")) is not None:
            return lambda _: {"NULL": None, "TRUE": True, "FALSE": False}[constant]
        kind, word = self.tokens[self.at]
        self.at += 1
        if kind in ("number", "text"):
            constant_value = int(word) if kind == "number" else word.replace("''", "'")
            self.constants.add(constant_value)
            return lambda _: constant_value
        if kind == "word" and self.take("("):
            function = _FUNCTIONS.get(word.lower())
            if function is None:
                raise SubsetError(f"the function {word}")
            arguments = self.listed()
            return lambda row: function([one(row) for one in arguments])
        if kind in ("word", "quoted"):
            self.columns.append(word)
            return lambda row: row[word]
        raise SubsetError(f"{word or 'the end'} where a value is expected")

    def listed(self) -> list[Evaluated]:
        """Values with commas between, up to the parenthesis that closes them."""
        found = [self.either()]
        while self.take(","):
            found.append(self.either())
        self.expect(")")
        return found

    def case(self) -> Evaluated:
        branches = []
        while self.take("WHEN"):
            when = self.either()
            self.expect("THEN")
            branches.append((when, self.either()))
        otherwise: Evaluated = self.either() if self.take("ELSE") else lambda _: None
        self.expect("END")
        if not branches:
            raise SubsetError("CASE without WHEN, or of a value")
        return lambda row: _first(branches, otherwise, row)


def _first(branches: list[tuple[Evaluated, Evaluated]], otherwise: Evaluated, row: Row) -> Value:
    """The value of the first branch whose condition is true; no other branch is evaluated."""
    for when, then in branches:
        if _truth(when(row)):
            return then(row)
    return otherwise(row)


def _truth(value: Value) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise SubsetError(f"{value!r} is no truth value")
    return value


def _any(values: Any) -> bool | None:
    """OR: true if one is, else null if one is, else false."""
    found = [_truth(value) for value in values]
    return True if True in found else None if None in found else False


def _not(value: Value) -> bool | None:
    return None if _truth(value) is None else not value


def _compare(sign: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    if type(left) is not type(right) or (sign not in ("=", "<>") and not isinstance(left, int)):
        raise SubsetError(f"{left!r} {sign} {right!r}")  # an order of texts would depend on a collation
    return _COMPARED[sign](left, right)


def _of_any(sign: str, left: Value, array: Value) -> bool | None:
    return None if array is None else _any([_compare(sign, left, one) for one in array])


def _overlap(left: Value, right: Value) -> bool | None:
    """Whether two arrays have an element in common; a null in them is like nothing."""
    if left is None or right is None:
        return None
    return any(one is not None and one in right for one in left)


def _like(text: Value, pattern: Value) -> bool | None:
    if text is None or pattern is None:
        return None
    if set(pattern) & set("_\\"):
        raise SubsetError(f"LIKE {pattern!r}")
    return re.fullmatch(".*".join(map(re.escape, pattern.split("%"))), text, re.DOTALL) is not None


def _applied(operation: Callable[[int, int], int], left: Evaluated, right: Evaluated) -> Evaluated:
    return lambda row: _whole(operation, left(row), right(row))


def _whole(operation: Callable[[int, int], int], left: Value, right: Value) -> int | None:
    if left is None or right is None:
        return None
    if type(left) is not int or type(right) is not int:
        raise SubsetError(f"no whole numbers: {left!r}, {right!r}")
    return operation(left, right)


def _element(array: Value, index: Value) -> Value:
    """Counted from 1; null beyond either end."""
    if array is None or index is None:
        return None
    return array[index - 1] if 1 <= index <= len(array) else None


def _coalesce(values: list[Value]) -> Value:
    return next((value for value in values if value is not None), None)


def _cardinality(values: list[Value]) -> int | None:
    (array,) = values
    return None if array is None else len(array)


def _extreme(choose: Callable[[list[Value]], Value]) -> Callable[[list[Value]], Value]:
    """Postgres' least and greatest: of what is not null."""
    return lambda values: choose(known) if (known := [value for value in values if value is not None]) else None


def _mod(values: list[Value]) -> int | None:
    """What is left has the sign of what is divided."""
    return _whole(lambda a, b: (abs(a) % abs(b)) * (-1 if a < 0 else 1), *values)


_FUNCTIONS: Mapping[str, Callable[[list[Value]], Value]] = {
    "cardinality": _cardinality,
    "coalesce": _coalesce,
    "greatest": _extreme(max),
    "least": _extreme(min),
    "mod": _mod,
}
