"""Sums, differences and products of the catalogue's SQL, rendered so that no number is too large for them.

In: an expression as an invariant states it. Out: the same in SQL whose `+`, `-` and `*` are those of a wider type, the
engine's own: `numeric` of Postgres has no bounds, `decimal(38, 0)` of Spark has room for the product of any two numbers
of 64 bits. A row is judged by true arithmetic, whatever numbers stand in it. A damaged file may hold any number of 64
bits, and both engines end a whole query where the sum of two of them is none.

    last_offset + 1 - base_offset    becomes    last_offset + CAST(1 AS numeric) - CAST(base_offset AS numeric)

What follows a sign is cast. So one side of every operation is of the wide type, whichever of them binds first, and the
engine takes the other side along. A comparison and a division stay as they are: neither leaves 64 bits.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

TOKEN: Final = re.compile(
    r"(?P<text>'(?:[^']|'')*')|(?P<number>\d+)|(?P<name>\"[^\"]+\"|`[^`]+`|[A-Za-z_]\w*)|(?P<sign>[-+*])"
    r"|(?P<other><>|<=|>=|&&|\S)"
)
"""A word of the catalogue's SQL, in Postgres' spelling or in Spark's."""
_VALUE_FOLLOWS: Final = frozenset({"AND", "BETWEEN", "CASE", "ELSE", "IN", "LIKE", "NOT", "OR", "THEN", "WHEN"})
"""Words behind which a sign is a number's own."""
_NESTED: Final = {"(": 1, "[": 1, ")": -1, "]": -1}


@cache
def unbounded(sql: str, wide: str = "numeric") -> str:
    """The expression without a bound for what is added, subtracted or multiplied: in the type `wide`.

    Raises ValueError for what it does not read: an operand behind a sign that is no number, column, function or
    parenthesis, and the negative of anything but a number.
    """
    tokens = list(TOKEN.finditer(sql))
    casts: list[tuple[int, str]] = []
    for at, token in enumerate(tokens):
        if token["sign"] is None:
            continue
        operand = _operand(tokens[at + 1 :], sql)
        if at and _ends_a_value(tokens[at - 1]):
            casts += [(operand[0].start(), "CAST("), (operand[-1].end(), f" AS {wide})")]
        elif token["sign"] != "-" or operand[0]["number"] is None:
            raise ValueError(f"{token['sign']} stands before no number, and behind no value: {sql}")
    pieces, done = [], 0
    for place, text in sorted(casts):
        pieces += [sql[done:place], text]
        done = place
    return "".join([*pieces, sql[done:]])


def _ends_a_value(token: re.Match[str]) -> bool:
    return token["sign"] is None and (token["other"] in (None, ")", "]")) and token[0].upper() not in _VALUE_FOLLOWS


def _operand(tokens: Sequence[re.Match[str]], sql: str) -> Sequence[re.Match[str]]:
    """The first tokens, up to where the value ends with which they begin: `1`, `name`, `name(…)`, `name[…]`, `(…)`."""
    if tokens and tokens[0]["number"] is not None:
        return tokens[:1]
    named = bool(tokens) and tokens[0]["name"] is not None and tokens[0][0] != "CASE"
    if not named and not (tokens and tokens[0][0] == "("):
        raise ValueError(f"an operand behind a sign is a number, a column, a function or a parenthesis: {sql}")
    depth, end = 0, 0
    for end, token in enumerate(tokens):
        if depth == 0 and end >= 1 and token[0] not in ("(", "["):
            return tokens[:end]
        depth += _NESTED.get(token[0], 0)
    return tokens
