"""Faults against whole audits, each so many times.

    PYTHONPATH=. python -m benchmarks.faults [--times N] [--faults TEXT ...] [--seed TEXT] [--first N] [--jobs J]
                                             [--write]

Prints a line an attempt: fault, number, exit codes, what was left, what was wrong. Exit status 1 if anything was.
`--write` keeps the attempts in docs/faults.json and the table in docs/faults.md. As root it works in a mount namespace
of its own, so that small disks and read-only ones go with it, however it ends.
"""

import argparse
import os
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks.faults import table
from benchmarks.faults.attempt import Attempt, attempt, calm, on_spark
from benchmarks.faults.faults import Fault, faults, no_root
from benchmarks.faults.place import end_all

OWN_MOUNTS = "FAULTS_OWN_MOUNTS"


def main() -> int:
    """Makes every attempt; returns the exit status."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", type=int, default=100, help="attempts of each fault")
    options.add_argument("--faults", nargs="+", metavar="TEXT", help="only faults of these names")
    options.add_argument("--seed", default="1", help="another one chooses other instants")
    options.add_argument("--first", type=int, default=0, help="the number of the first attempt of each fault")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="attempts at a time")
    options.add_argument("--write", action="store_true", help=f"keep the attempts in docs/{table.KEPT.name}")
    asked = options.parse_args()
    if no_root() is None and OWN_MOUNTS not in os.environ:
        command = ["unshare", "--mount", sys.executable, "-m", "benchmarks.faults", *sys.argv[1:]]
        os.execvpe("unshare", command, {**os.environ, OWN_MOUNTS: "1"})  # noqa: S606 - no shell is wanted
    every = faults()
    chosen = [fault for fault in every if not asked.faults or fault.name in asked.faults]
    if not chosen:
        print(f"faults: none is called so. There are: {', '.join(fault.name for fault in every)}", file=sys.stderr)
        return 2
    # Also where whoever started this lets it ignore one, as `nohup` and a shell's `&` do: an audit would inherit that,
    # and its fault would be none.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="tgf-", dir="/tmp") as parent:
        Path(parent).chmod(0o755)
        os.environ["TIDEGAUGE_ROOT_POSTGRES"] = f"{parent}/postgres"  # of servers that are nobody's home's
        return run(chosen, every, asked, Path(parent))


def run(chosen: list[Fault], every: tuple[Fault, ...], asked: argparse.Namespace, parent: Path) -> int:
    """Every attempt that was asked for, a few at a time, the faults by turns."""
    impossible = {fault.name: why for fault in every if (why := fault.impossible()) is not None}
    for name, why in impossible.items():
        print(f"{name}: not possible here: {why}", flush=True)
    expected = calm(parent)
    for spark, of_audits in expected.items():
        phases = ", ".join(f"{s:.1f}" for s in of_audits.seconds)
        print(f"an undisturbed audit {'on Spark' if spark else 'without Spark'}: {phases} s a phase", flush=True)
    possible = [fault for fault in chosen if fault.name not in impossible]
    kept = table.Kept(faults={f.name: f.what for f in every}, impossible=impossible, calm=expected[True].code)
    made: list[Attempt] = []
    with ThreadPoolExecutor(asked.jobs) as workers:
        waiting = [
            workers.submit(attempt, fault, asked.seed, number, expected[spark], parent, spark=spark)
            for number in range(asked.first, asked.first + asked.times)
            for fault in possible
            for spark in (on_spark(fault, number),)
        ]
        try:
            for done in as_completed(waiting):
                made.append(done.result())
                tell(made[-1])
                if asked.write:  # Each as it comes: a run that is broken off keeps what it has.
                    table.write([made[-1]], kept)
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            end_all()  # What the attempts under way wait for ends.
            raise
    wrong = sum(bool(one.wrong) for one in made)
    print(f"{len(made)} attempts, {wrong} with something wrong.")
    return 1 if wrong else 0


def tell(one: Attempt) -> None:
    """An attempt, as soon as it is over."""
    codes = ",".join(map(str, one.codes))
    left = "; ".join(one.left) or "nothing"
    where = "on Spark, " if one.spark else ""
    wrong = "; ".join(one.wrong) or "nothing"
    print(f"{one.fault} {one.number} ({where}{one.how}): exit {codes}; left {left}; wrong: {wrong}")
    if one.wrong:
        print(one.said)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
