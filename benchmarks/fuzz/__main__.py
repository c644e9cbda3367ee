"""Hostile bytes for every reader, from a seed.

    PYTHONPATH=. python -m benchmarks.fuzz [--kinds TEXT ...] [--inputs N] [--seconds S] [--seed TEXT] [--first N]
                                           [--jobs J] [--findings DIR] [--write] [--replay FILE [--keep PATH]]

Prints a line a kind: inputs, crashes, the slowest one, the memory at its peak. Each finding is a file of kind, seed and
number in `--findings`; `--replay` makes its input again, reads it and shows what is raised, and `--keep` writes the
input to a path. `--seconds` is for all kinds together, `--inputs` for each. `--write` keeps the rows in docs/fuzz.md.
Exit status 1 if there was a finding.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.fuzz import table
from benchmarks.fuzz.corpus import loaded
from benchmarks.fuzz.decoders import decoders
from benchmarks.fuzz.kinds import Kind, generator
from benchmarks.fuzz.run import Asked, Finding, Row, attempt, fuzzed
from benchmarks.fuzz.snapshots import whole

UNBOUNDED = 1 << 62


def main() -> int:
    """Reads, prints; returns the exit status."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kinds", nargs="+", metavar="TEXT", help="only kinds whose names hold one of these")
    options.add_argument("--inputs", type=int, default=UNBOUNDED, help="of each kind, at most")
    options.add_argument("--seconds", type=float, help="for all kinds together; 60 if there is no --inputs")
    options.add_argument("--seed", default="1", help="another one gives other inputs")
    options.add_argument("--first", type=int, default=0, help="the number of the first input of each kind")
    options.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes at a time")
    options.add_argument("--findings", type=Path, help="where findings go; a new temporary directory if left out")
    options.add_argument("--write", action="store_true", help=f"keep the rows in docs/{table.PAGE.name}")
    options.add_argument("--replay", type=Path, metavar="FILE", help="read the input of one finding again")
    options.add_argument("--keep", metavar="PATH", help="with --replay: write the input there")
    asked = options.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="tidegauge-fuzz-") as scratch:
        kinds = {kind.name: kind for kind in (*decoders(loaded()), *whole(Path(scratch)))}
        if asked.replay:
            return replay(kinds, asked.replay, asked.keep)
        return run(kinds, asked)


def run(kinds: dict[str, Kind], asked: argparse.Namespace) -> int:
    """Every kind that was asked for."""
    chosen = [kind for name, kind in kinds.items() if not asked.kinds or any(text in name for text in asked.kinds)]
    if not chosen:
        print(f"fuzz: no kind is called so. There are: {', '.join(kinds)}", file=sys.stderr)
        return 2
    seconds = 60.0 if asked.seconds is None and asked.inputs == UNBOUNDED else asked.seconds
    far = Asked(
        seed=asked.seed,
        first=asked.first,
        inputs=asked.inputs,
        seconds=None if seconds is None else seconds * asked.jobs / len(chosen),
        findings=asked.findings or Path(tempfile.mkdtemp(prefix="tidegauge-fuzz-findings-")),
    )
    started = time.monotonic()
    print(f"{'kind':34}{'inputs':>11}{'crashes':>9}{'slowest, ms':>13}{'peak, MiB':>11}{'born, MiB':>11}", flush=True)

    def told(row: Row) -> None:
        tell(row)
        if asked.write:  # Each as it comes: a run that is broken off keeps what it has.
            table.write([row], kinds)

    rows = fuzzed(chosen, far, jobs=asked.jobs, say=told)
    found = sum(row.crashes for row in rows)
    print(f"\n{sum(row.inputs for row in rows):,} inputs of seed {asked.seed} in {time.monotonic() - started:,.0f} s.")
    print(f"{found:,} crashes; look at {far.findings}" if found else "No crash.")
    return 1 if found else 0


def tell(row: Row) -> None:
    """A row, as soon as it is there."""
    print(
        f"{row.kind:34}{row.inputs:>11,}{row.crashes:>9,}{row.slowest_ms:>13,.1f}{row.peak_mib:>11,.0f}{row.born_mib:>11,.0f}",
        flush=True,
    )


def replay(kinds: dict[str, Kind], path: Path, keep: str | None) -> int:
    """One finding's input, read again."""
    finding = Finding(**json.loads(path.read_text(encoding="utf-8")))
    kind = kinds[finding.kind]
    if keep is not None:
        kind.keep(kind.make(generator(finding.kind, finding.seed, finding.number)), keep)
    found = attempt(kind, finding.seed, [finding.number])
    print(
        "\n".join(f.trace for f in found)
        if found
        else f"number {finding.number} of {finding.kind} is read without a crash"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
