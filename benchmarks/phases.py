"""Where the seconds of a small audit go: `tidegauge audit` of the golden capture `healthy`, as fresh processes.

In: the capture (6 MB, 109 replicas of three brokers). Out: a table on standard output: seconds from each of the audit's
lines to the next, and processor seconds of all its processes; the same on Spark; and, since machines differ, how long a
fresh Python takes to import Great Expectations, which is the longest single thing that an audit waits for. The exit
status is 1 when the audit takes more than `BAR` times as long as that.

    PYTHONPATH=. python benchmarks/phases.py [--runs 5]
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from tidegauge.embedded.archive import unpack
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.manifest import Consistency

ROOT = Path(__file__).resolve().parents[1]
CAPTURE = ROOT / "tests" / "golden" / "healthy.tar.gz"
BAR = 2.0
LINES = ("index:", "derive:", "evaluate:", "publish:")
PHASES = {
    "start": "imports, the snapshot opened, Postgres started (and Spark)",
    "index:": "segments read by Spark's workers",
    "derive:": "facts; without Spark the segments are read here",
    "evaluate:": "facts to Postgres, counted there; Great Expectations; data docs",
    "publish:": "one transaction, the report shown, Postgres stopped (and Spark)",
}


def audit(snapshot: Path, out: Path, home: Path, *options: str) -> dict[str, float]:
    """Run one; return the seconds of each phase, and of processors."""
    environment = {**os.environ, "TIDEGAUGE_HOME": str(home), "TIDEGAUGE_STORE_URL": "", "TIDEGAUGE_SPARK_MASTER": ""}
    command = [sys.executable, "-m", "tidegauge", "audit", str(snapshot), "--out", str(out), "--fail-on", "never"]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )
    marks = [("start", began)]
    assert process.stderr is not None, "it is a pipe"
    for line in process.stderr:
        name = next((name for name in LINES if line.startswith(name)), None)
        if name is not None:
            marks.append((name, time.perf_counter()))
    if process.wait() or not (out / "report.json").exists():
        sys.exit(f"The audit failed with exit code {process.returncode}.")
    marks.append(("end", time.perf_counter()))
    seconds = {name: after - at for (name, at), (_, after) in pairwise(marks)}
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds["whole"] = marks[-1][1] - began
    seconds["processor"] = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return seconds


def imports() -> float:
    """Import Great Expectations in a fresh process; return the seconds."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import great_expectations"], check=True, cwd=ROOT)
    return time.perf_counter() - began


def main() -> int:
    """Measure both ways; return the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=5, help="measured rounds, the median counts (default 5)")
    runs = arguments.parse_args().runs
    ways: dict[str, list[str]] = {"here": [], "Spark": ["--master", "local[*]"]}
    found: dict[str, list[Mapping[str, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="tgp-") as scratch:
        snapshot, home = unpack(CAPTURE, Path(scratch, "healthy")), Path(scratch, "home")
        adopt(snapshot, cluster="healthy", consistency=Consistency.FUZZY)
        library = []
        for number in range(-1, runs):  # The first fills caches and makes the embedded Postgres; it does not count.
            for way, options in ways.items():
                found[way].append(audit(snapshot, Path(scratch, f"{way}{number}"), home, *options))
            library.append(imports())
    importing = statistics.median(library[1:])
    told = (*PHASES, "whole", "processor")
    took = {way: {name: _median(rounds[1:], name) for name in told} for way, rounds in found.items()}
    print(f"fresh processes, warm cache, {os.cpu_count()} cores, median of {runs}, seconds")
    print(f"  {'phase':12}{'here':>7}{'Spark':>7}   what it waits for")
    for name in told:
        print(f"  {name:12}{took['here'][name]:7.1f}{took['Spark'][name]:7.1f}   {PHASES.get(name, '')}".rstrip())
    print(f"  import great_expectations: {importing:.1f}")
    ratio = took["here"]["whole"] / importing
    print(f"bar: at most {BAR} times that import: {ratio:.2f}, {'reached' if ratio <= BAR else 'MISSED'}")
    return 0 if ratio <= BAR else 1


def _median(rounds: list[Mapping[str, float]], name: str) -> float:
    return statistics.median(seconds.get(name, 0.0) for seconds in rounds)


if __name__ == "__main__":
    sys.exit(main())
