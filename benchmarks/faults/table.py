"""The table of what faults did: docs/faults.md, and the attempts that it is made from.

In: attempts. Out: both files. The rule that must hold: a number in the page is a count of attempts that are kept; an
attempt made again takes the place of the same one before, and faults that cannot be made here say why.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.faults.attempt import Attempt

KEPT: Final = Path(__file__).resolve().parents[2] / "docs" / "faults.json"
PAGE: Final = KEPT.with_suffix(".md")
_HEAD: Final = """# What faults did to audits

`make faults` lets a real `tidegauge audit`, with a home and a store of its own, meet a fault at a random instant, then
gives the same command again. The store is right if it has exactly one published run of the snapshot, with the verdicts,
breaches and losses of an undisturbed audit, nothing is staged, and `report.json` tells of that run. What was left is
told twice: what the fault left until the next command, and what was there after it.

    make faults                            each fault 100 times
    make faults TIMES=5 FAULTS="SIGTERM"   one of them, five times

| fault | what happens | times | exit codes | store right after it | left until the retry | left for good | wrong |
|---|---|--:|---|--:|---|---|--:|
"""
_FOOT: Final = """
Exit codes below 0 are signals that ended the command before it could hear them. An audit that was through before its
fault came ends as an undisturbed one, with {calm}. `process postgres` is the embedded server, which the next command
takes over and stops; `work in the run directory` is what the steps handed to each other until then. The clock is that
of the command alone: Postgres and the JVM keep the machine's. [faults.json](faults.json) has every attempt, told by its
seed and number; `python -m benchmarks.faults --write` writes both files.
"""


def merged(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The attempts that are kept, with these among them."""
    kept = _loaded() | {(a.fault, a.seed, a.number): a for a in attempts}
    return list(kept.values())


def _loaded() -> dict[tuple[str, str, int], Attempt]:
    if not KEPT.exists():
        return {}
    found = {}
    for value in json.loads(KEPT.read_text(encoding="utf-8")):
        lists = {name: tuple(value[name]) for name in ("codes", "left", "left_for_good", "wrong")}
        attempt = Attempt(**{**value, **lists})
        found[attempt.fault, attempt.seed, attempt.number] = attempt
    return found


def write(attempts: Iterable[Attempt], faults: Mapping[str, str], impossible: Mapping[str, str], calm: int) -> None:
    """Both files. `faults`: what each does, in the table's order; `impossible`: those that cannot be made here."""
    order = list(faults)
    found = sorted((a for a in merged(attempts) if a.fault in faults), key=lambda a: (order.index(a.fault), a.number))
    rows = [json.dumps({name: v for name, v in asdict(a).items() if name != "said" or v}) for a in found]
    KEPT.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
    PAGE.write_text(page(found, faults, impossible, calm), encoding="utf-8")


def page(attempts: list[Attempt], faults: Mapping[str, str], impossible: Mapping[str, str], calm: int) -> str:
    """docs/faults.md."""
    lines = []
    for name, what in faults.items():
        of_it = [a for a in attempts if a.fault == name]
        if not of_it and name in impossible:
            lines.append(f"| {name} | {what} | 0 | not possible here: {impossible[name]} | | | | |")
        else:
            lines.append(_line(name, what, of_it))
    return _HEAD + "".join(f"{line}\n" for line in lines) + _FOOT.format(calm=calm)


def _line(name: str, what: str, attempts: list[Attempt]) -> str:
    codes = _counted(str(code) for a in attempts for code in a.codes)
    right = sum(a.store_right for a in attempts)
    left, for_good = (
        _counted(w for a in attempts for w in a.left),
        _counted(w for a in attempts for w in a.left_for_good),
    )
    wrong = sum(bool(a.wrong) for a in attempts)
    return f"| {name} | {what} | {len(attempts)} | {codes} | {right} | {left} | {for_good} | {wrong} |"


def _counted(words: Iterable[str]) -> str:
    counts = Counter(words)
    return ", ".join(f"{word} ({n})" for word, n in sorted(counts.items())) or "nothing"
