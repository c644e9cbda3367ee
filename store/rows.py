r"""Arrow rows of a relation in, the text of Postgres's `COPY … (FORMAT csv)` out, batch by batch.

    null    nothing between two commas        text    "always quoted, "" for a quote"; so '' is not null
    array   "{1,2}", "{""a"",""b\""c""}"      json    as it is, quoted

What Postgres cannot hold: a NUL character, which becomes U+2400 (the symbol for it), and in json the escape of one, or
of half a surrogate pair, which becomes U+2400 or U+FFFD. Quoted text may hold anything else: newlines, backslashes, a
lone `\.` on its line.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tidegauge.relations import COMMON, ColumnType, Relation

NUL_SHOWN: Final = "\u2400"

_OPTIONS: Final = csv.WriteOptions(include_header=False, quoting_style="needed")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


class CopyStream:
    """What `COPY … FROM STDIN` reads: `read(size)` over the rows of `batches`, each with its run, one in memory at a
    time. `rows` counts them by run.

    psycopg2 turns an exception out of `read` into a Postgres error; the true one waits in `failure`. `signals`: those
    that wait until the COPY is over; one that comes ends it.
    """

    def __init__(
        self, relation: Relation, batches: Iterable[tuple[str, pa.RecordBatch]], signals: Sequence[int] = ()
    ) -> None:
        self.rows: Counter[str] = Counter()
        self.failure: Exception | None = None
        self._signals = signals
        self._chunks = self._encoded(relation, batches)
        self._chunk = memoryview(b"")

    def read(self, size: int = 65536) -> bytes:
        """At most `size` bytes; none at the end. Raises `InterruptedError` once a signal waits."""
        if self._signals:
            raise InterruptedError("a signal waits")
        try:
            while not self._chunk:
                self._chunk = memoryview(next(self._chunks))
        except StopIteration:
            return b""
        except Exception as error:
            self.failure = error
            raise
        taken, self._chunk = self._chunk[:size], self._chunk[size:]
        return bytes(taken)

    def _encoded(self, relation: Relation, batches: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[bytes]:
        for run_id, batch in batches:
            self.rows[run_id] += batch.num_rows
            if batch.num_rows:
                yield encode(relation, run_id, batch)


def encode(relation: Relation, run_id: str, batch: pa.RecordBatch) -> bytes:
    """The rows of one batch, `run_id` first, then the relation's columns in its order.

    Raises KeyError if a column is missing: that is our bug, not the store's.
    """
    columns = [pa.array([run_id] * batch.num_rows, pa.string())]
    columns += [_column(batch.column(c.name), c.type) for c in (*COMMON, *relation.columns)]
    sink = BytesIO()
    csv.write_csv(pa.table(columns, names=["run_id", *relation.column_names]), sink, _OPTIONS)
    return sink.getvalue()


def storable_json(text: str) -> str:
    """JSON text with the escapes replaced that `jsonb` refuses. Works on the text, so numbers stay as they are."""
    if "\\u" not in text:
        return text
    result: list[str] = []
    position = 0
    high = ""  # the first half of a surrogate pair, not yet written
    for match in _ESCAPE.finditer(text):
        between = text[position : match.start()]
        position = match.end()
        unit = int(match[1], 16) if match[1] else -1
        if high and not between and 0xDC00 <= unit <= 0xDFFF:
            result.append(high + match[0])
            high = ""
            continue
        result.append(("\\ufffd" if high else "") + between)
        high = match[0] if 0xD800 <= unit <= 0xDBFF else ""
        if high:
            continue
        result.append("\\u2400" if unit == 0 else "\\ufffd" if 0xDC00 <= unit <= 0xDFFF else match[0])
    return "".join(result) + ("\\ufffd" if high else "") + text[position:]


def json_text(value: object) -> str:
    """A value of a report as text for a `jsonb` column."""
    return storable_json(json.dumps(value, ensure_ascii=True, allow_nan=False, sort_keys=True, default=_plain))


def text_value(value: object) -> str:
    """A value of a report as text for a `text` column."""
    return _SURROGATE.sub("\ufffd", str(value).replace("\0", NUL_SHOWN))


def _plain(value: object) -> object:
    """Numbers of numpy, dates, and whatever else has a plain form."""
    for method in ("item", "isoformat"):
        if hasattr(value, method):
            return getattr(value, method)()
    if isinstance(value, set | frozenset | tuple):
        return sorted(value)
    raise TypeError(f"a report holds a {type(value).__name__}, which has no JSON form")


def _column(column: pa.Array, type_: ColumnType) -> pa.Array:
    if type_ in ("int64", "int32", "bool"):
        return column
    if type_ in ("int32[]", "string[]"):
        return pa.array([None if v is None else _array(v) for v in column.to_pylist()], pa.string())
    if type_ == "json":
        return pa.array(
            [None if v is None else storable_json(v).replace("\0", NUL_SHOWN) for v in column.to_pylist()], pa.string()
        )
    return pc.replace_substring(column.cast(pa.string()), "\0", NUL_SHOWN)


def _array(values: list[Any]) -> str:
    return "{" + ",".join("NULL" if v is None else _element(v) for v in values) + "}"


def _element(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("\0", NUL_SHOWN).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
