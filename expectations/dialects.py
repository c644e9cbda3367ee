"""The two engines that read the catalogue's SQL: Postgres, in whose words it is written, and Spark.

In: an expression as an invariant states it. Out: the same expression for an engine. The rules that must hold: the two
give the same value for every row, nulls and numbers beyond 64 bits included; and what this module does not know how to
say in Spark is refused when it is rendered, so that it never means something else there.

    Postgres                Spark, in ANSI mode
    "offset"                `offset`
    array[2]                get(array, 1)                   null beyond the end, in both
    value = ANY(array)      array_contains(array, value)    but false of an empty array, whatever the value
    left && right           arrays_overlap(left, right)     but a null in an array is like nothing
    cardinality(array)      array_size(array)               null of null, in both

Everything else is spelled alike and means the same: three-valued logic, CASE, coalesce, `least` and `greatest` of what
is not null, a remainder with the sign of what is divided.
"""

import re
from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import Final

from tidegauge.expectations.arithmetic import TOKEN, unbounded


class Dialect(Enum):
    """An engine, by the type in which it adds without bounds."""

    POSTGRES = "numeric"
    SPARK = "decimal(38, 0)"


_WORDS: Final = frozenset(
    {"AND", "BETWEEN", "CASE", "ELSE", "END", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "THEN", "TRUE", "WHEN"}
)
_FUNCTIONS: Final = {
    "cardinality": "array_size",
    "coalesce": "coalesce",
    "greatest": "greatest",
    "least": "least",
    "mod": "mod",
}
_SIGNS: Final = frozenset({"=", "<>", "<", "<=", ">", ">=", "(", ")", ","})


@cache
def rendered(sql: str, dialect: Dialect = Dialect.POSTGRES, *, as_stated: bool = False) -> str:
    """The expression for an engine. `as_stated`: with sums in the columns' own type, which is cheaper, and fails on a
    row that makes one of more than 64 bits.

    Raises ValueError for what cannot be said there.
    """
    spoken = _in_spark(sql) if dialect is Dialect.SPARK else sql
    return spoken if as_stated else unbounded(spoken, dialect.value)


def _in_spark(sql: str) -> str:
    tokens = list(TOKEN.finditer(sql))
    pieces: list[str] = []
    done = at = 0
    while at < len(tokens):
        taken, text = _said(tokens, at, sql)
        pieces += [sql[done : tokens[at].start()], text]
        at += taken
        done = tokens[at - 1].end()
    return "".join([*pieces, sql[done:]])


def _said(tokens: Sequence[re.Match[str]], at: int, sql: str) -> tuple[int, str]:
    """How many words from here on are said together, and how Spark says them."""
    words = [token[0] for token in tokens[at : at + 6]]
    behind = tokens[at - 1][0] if at else "("
    match words:
        case [value, "=", "ANY", "(", array, ")"] if _begins_a_value(behind):
            value, array = _column(value, sql), _column(array, sql)
            return 6, f"(CASE WHEN array_size({array}) = 0 THEN FALSE ELSE array_contains({array}, {value}) END)"
        case [left, "&&", right, *_] if _begins_a_value(behind):
            left, right = _column(left, sql), _column(right, sql)
            return 3, (
                f"(CASE WHEN {left} IS NOT NULL AND {right} IS NOT NULL"
                f" THEN coalesce(arrays_overlap({left}, {right}), FALSE) END)"
            )
        case [array, "[", place, "]", *_] if place.isdigit() and int(place):
            return 4, f"get({_column(array, sql)}, {int(place) - 1})"
    return 1, _one(tokens[at], words[1:2] == ["("], sql)


def _begins_a_value(behind: str) -> bool:
    """Whether a value that stands behind this word is all of an operand, and no sum's last part."""
    return behind in ("(", ",") or behind.upper() in _WORDS - {"END", "FALSE", "NULL", "TRUE"}


def _column(word: str, sql: str) -> str:
    token = TOKEN.fullmatch(word)
    if token is None or token["name"] is None or word.upper() in _WORDS:
        raise ValueError(f"{word} is no column, and Spark is told of an array's elements by columns alone: {sql}")
    return _one(token, False, sql)


def _one(token: re.Match[str], called: bool, sql: str) -> str:
    word = token[0]
    if token["number"] is not None or token["sign"] is not None or word in _SIGNS or word.upper() in _WORDS:
        return word
    if token["text"] is not None and "\\" not in word and "''" not in word[1:-1]:
        return word
    if token["name"] is not None and not called and word.upper() != "ANY":
        return "`" + word.strip('"') + "`"
    if called and word.lower() in _FUNCTIONS:
        return _FUNCTIONS[word.lower()]
    raise ValueError(f"{word} cannot be said in Spark as Postgres means it: {sql}")
