"""The table of what faults did: docs/faults.md, and the attempts that it is made from.

In: attempts. Out: both files. A number in the page is a count of attempts that are kept; an attempt made again takes
the place of the same one before, and faults that cannot be made here say why.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.faults.attempt import Attempt

KEPT: Final = Path(__file__).resolve().parents[2] / "docs" / "faults.json"
PAGE: Final = KEPT.with_suffix(".md")
_HEAD: Final = """# What faults did to audits

`make faults` runs a real `tidegauge audit`, with a home and a store of its own, and lets a fault happen at a random
instant. Then it gives the same command again. The store is right if it has exactly one published run of the snapshot,
with the verdicts, breaches and losses of an undisturbed audit, if nothing is staged, and if `report.json` is of that
run. Two columns say what was left behind: until the next command, and after it. One attempt of five runs on Spark; the
snapshot is so small that an audit would not choose it.

    make faults                            each fault 100 times
    make faults TIMES=5 FAULTS=SIGTERM     one of them, five times

| fault | what happens | times | on Spark | exit codes | store right after | left until retry | left for good | wrong |
|---|---|--:|--:|---|--:|---|---|--:|
"""
_FOOT: Final = """
Exit codes below 0 are signals that ended the command before it could react. An audit that finished before its fault
ends like an undisturbed one, with {calm}. `process postgres` is the embedded server, which the next command takes over
and stops. `work in the run directory` is what the steps had handed to each other, `.report.json.judged` the report of a
run that could not be published, and `.part-*.partial` facts whose writer was killed. Only the command sees the wrong
clock; Postgres and the JVM keep the machine's. `wrong` counts any line that is not ours, too: libpq prints one of its
own (`FATAL:  terminating connection …`) where the server dies while a connection to it begins.
[faults.json](faults.json) has every attempt, by its seed and number;
`python -m benchmarks.faults --write` writes both files.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the page is made from: each fault's words in the table's order, why some cannot be made, the exit code of an
    undisturbed audit, and every attempt.
    """

    faults: Mapping[str, str]
    impossible: Mapping[str, str]
    calm: int
    attempts: tuple[Attempt, ...] = ()


def load() -> Kept | None:
    """What is kept; None if nothing is yet."""
    if not KEPT.exists():
        return None
    value = json.loads(KEPT.read_text(encoding="utf-8"))
    attempts = tuple(
        Attempt(**{name: tuple(v) if isinstance(v, list) else v for name, v in attempt.items()})
        for attempt in value.pop("attempts")
    )
    return Kept(**value, attempts=attempts)


def write(made: Iterable[Attempt], now: Kept) -> None:
    """Both files: what was kept, with these attempts among them. Faults that are no more have no row."""
    before = load()
    by_number = {(a.fault, a.seed, a.number): a for a in (*(before.attempts if before else ()), *made)}
    order = list(now.faults)
    found = sorted((a for a in by_number.values() if a.fault in order), key=lambda a: (order.index(a.fault), a.number))
    kept = replace(now, attempts=tuple(found))
    KEPT.write_text(_json(kept), encoding="utf-8")
    PAGE.write_text(page(kept), encoding="utf-8")


def _json(kept: Kept) -> str:
    """An attempt a line."""
    head = json.dumps({"faults": kept.faults, "impossible": kept.impossible, "calm": kept.calm}, indent=1)
    attempts = ",\n  ".join(json.dumps(asdict(a)) for a in kept.attempts)
    return f'{head[:-2]},\n "attempts": [\n  {attempts}\n ]\n}}\n'


def page(kept: Kept) -> str:
    """docs/faults.md."""
    lines = []
    for name, what in kept.faults.items():
        of_it = [a for a in kept.attempts if a.fault == name]
        if not of_it and name in kept.impossible:
            lines.append(f"| {name} | {what} | 0 | | not possible here: {kept.impossible[name]} | | | | |")
        elif not of_it:
            lines.append(f"| {name} | {what} | 0 | | not made yet | | | | |")
        else:
            lines.append(_line(name, what, of_it))
    return _HEAD + "".join(f"{line}\n" for line in lines) + _FOOT.format(calm=kept.calm)


def _line(name: str, what: str, attempts: list[Attempt]) -> str:
    codes = _counted(str(code) for a in attempts for code in a.codes)
    right = sum(a.store_right for a in attempts)
    left, for_good = (
        _counted(w for a in attempts for w in a.left),
        _counted(w for a in attempts for w in a.left_for_good),
    )
    wrong = sum(bool(a.wrong) for a in attempts)
    on_spark = sum(a.spark for a in attempts)
    return f"| {name} | {what} | {len(attempts)} | {on_spark} | {codes} | {right} | {left} | {for_good} | {wrong} |"


def _counted(words: Iterable[str]) -> str:
    counts = Counter(words)
    return ", ".join(f"{word} ({n})" for word, n in sorted(counts.items())) or "nothing"
