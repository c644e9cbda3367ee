"""How long a whole audit takes, beside Kafka's own dump tool on the same log.

In: the seeded logs of `benchmarks/scan.py`. Out: a table on standard output; the exit status is 1 when an audit of the
log of small batches takes more than `BAR` times as long as the dump.

Each contender is a fresh process, its JVM's start included:

    audit    `tidegauge audit` of a snapshot of one broker and one replica: Spark, facts, the embedded Postgres, every
             invariant, report and data docs
    dump     `org.apache.kafka.tools.DumpLogSegments --files LOG`, which prints one line per batch header, with the heap
             and collector that Kafka's own scripts give it, into /dev/null

They take turns, so that a slow moment hits both, and each runs once unmeasured first: that fills the page cache and
makes the embedded Postgres. A third log of 1 MB shows the part of an audit that does not depend on the log. Kafka's
tools are fetched by `mvn` (see pom.xml) into the cache directory, once; a Java 17 or newer has to be on the PATH.

    python benchmarks/audit.py --size-mb 500 --runs 3
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scan import SHAPES, cached_log

ROOT = Path(__file__).resolve().parents[1]
BAR = 2.0
"""An audit may take this many times as long as the dump, on the log of small batches."""
KAFKA_TOOLS = "kafka-tools-4.3.1"
DUMP_OPTIONS = (
    "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
"""What kafka-run-class.sh starts a tool's JVM with."""
META_PROPERTIES = "version=1\nnode.id=1\ncluster.id=benchmark-cluster-0000\ndirectory.id=benchmark-directory-00\n"
SMALLEST_MB = 1


def kafka_tools(cache: Path) -> Path:
    """Return the directory of the dump tool's jars, fetched if they are not in the cache yet."""
    jars = cache / KAFKA_TOOLS
    if not jars.is_dir():
        if shutil.which("mvn") is None:
            sys.exit("mvn is not on the PATH: install Maven, which fetches Kafka's tools.")
        partial = cache / f"{KAFKA_TOOLS}.{os.getpid()}.partial"
        goal = ("dependency:copy-dependencies", f"-DoutputDirectory={partial}", "-DincludeScope=runtime")
        subprocess.run(["mvn", "-B", "-q", "-f", str(Path(__file__).with_name("pom.xml")), *goal], check=True)
        partial.replace(jars)
    return jars


def snapshot(cache: Path, log: Path) -> Path:
    """Lay the log out as a plain copy of one broker with one replica; return its directory."""
    root = cache / "snapshots" / log.stem
    replica = root / "broker-1" / "bench-0"
    replica.mkdir(parents=True, exist_ok=True)
    (root / "broker-1" / "meta.properties").write_text(META_PROPERTIES)
    segment = replica / f"{0:020d}.log"
    if not segment.exists() or segment.stat().st_size != log.stat().st_size:
        segment.unlink(missing_ok=True)
        try:
            os.link(log, segment)
        except OSError:
            shutil.copyfile(log, segment)
    return root


def audit(directory: Path, out: Path, home: Path) -> float:
    """Run a whole audit; return its seconds. Exits if it does not read the log to its end."""
    command = [sys.executable, "-m", "tidegauge", "audit", str(directory), "--out", str(out), "--fail-on", "never"]
    environment = {**os.environ, "TIDEGAUGE_HOME": str(home), "TIDEGAUGE_STORE_URL": ""}
    seconds = run(command, environment)
    coverage = json.loads((out / "report.json").read_text())["coverage"]
    size = sum(path.stat().st_size for path in directory.rglob("*.log"))
    if coverage["bytes"] != size:
        sys.exit(f"The audit read {coverage['bytes']} of {size} bytes: there is nothing to compare.")
    return seconds


def dump(jars: Path, log: Path, *options: str) -> list[str]:
    """Give the dump tool's command line."""
    return [
        "java", *DUMP_OPTIONS, "-cp", f"{jars}/*", "org.apache.kafka.tools.DumpLogSegments", "--files", str(log),
        *options,
    ]  # fmt: skip


def must_dump(jars: Path, log: Path) -> None:
    """Exit unless the tool prints batch headers: its exit status would not tell."""
    done = subprocess.run(dump(jars, log, "--max-bytes", "100000"), capture_output=True, text=True, check=False)
    if "baseOffset: 0 " not in done.stdout:
        sys.exit(f"Kafka's dump tool prints no batch headers: {done.stdout[-300:]}{done.stderr[-300:]}")


def run(command: Sequence[str], environment: dict[str, str] | None = None) -> float:
    """Run a command with its output thrown away; return its seconds. Exits if it fails."""
    begin = time.perf_counter()
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment, check=False
    )
    seconds = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"{command[0]} failed with exit code {done.returncode}: {done.stderr[-600:]}")
    return seconds


def measure(log: Path, cache: Path, jars: Path, runs: int) -> tuple[float, float]:
    """Return the median seconds of the audit and of the dump."""
    directory, home = snapshot(cache, log), cache / "home"
    segment = next(directory.rglob("*.log"))
    must_dump(jars, segment)
    audits, dumps = list[float](), list[float]()
    with tempfile.TemporaryDirectory(dir=cache) as out:
        audit(directory, Path(out, "warm"), home)
        run(dump(jars, segment))
        for number in range(runs):
            audits.append(audit(directory, Path(out, str(number)), home))
            dumps.append(run(dump(jars, segment)))
    return statistics.median(audits), statistics.median(dumps)


def main() -> int:
    """Measure every log; return the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--size-mb", type=int, default=500, help="size of each log (default 500)")
    arguments.add_argument("--runs", type=int, default=3, help="measured rounds, the median counts (default 3)")
    arguments.add_argument(
        "--cache-dir",
        type=Path,
        default=Path(tempfile.gettempdir()) / "tidegauge-benchmarks",
        help="where logs, snapshots and Kafka's tools are kept (default: under the system's temporary directory)",
    )
    options = arguments.parse_args()
    cache: Path = options.cache_dir.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    jars = kafka_tools(cache)
    print(f"fresh processes, warm cache, {os.cpu_count()} cores, median of {options.runs}", flush=True)
    print(f"  {'log':22}{'audit':>9}{'dump':>9}   audit / dump", flush=True)
    logs = {f"{name}, {options.size_mb} MB": cached_log(cache, name, options.size_mb) for name in SHAPES}
    logs[f"small, {SMALLEST_MB} MB"] = cached_log(cache, "small", SMALLEST_MB)
    ratios = {}
    for name, log in logs.items():
        audited, dumped = measure(log, cache, jars, options.runs)
        ratios[name] = audited / dumped
        print(f"  {name:22}{audited:7.1f} s{dumped:7.1f} s{ratios[name]:10.2f}", flush=True)
    reached = ratios[f"small, {options.size_mb} MB"] <= BAR
    print(f"bar: at most {BAR:.1f} on the log of small batches: {'reached' if reached else 'MISSED'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
