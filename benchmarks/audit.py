"""How long a whole audit takes, beside Kafka's own dump tool on the same log.

In: the seeded logs of `benchmarks/scan.py`. Out: a table on standard output; the exit status is 1 when an audit of
three replicas of the log of small batches takes longer than the dump of one, or of the log of large batches longer than
the dump of the three and `START_S`.

Each contender is a fresh process, its JVM's start included:

    audit    `tidegauge audit` of a snapshot of one partition, a replica a broker: facts, the embedded Postgres, every
             invariant, report and data docs; with --master on Spark, else as it decides itself
    dump     `org.apache.kafka.tools.DumpLogSegments --files LOG`, which prints one line per batch header, with the heap
             and collector that Kafka's own scripts give it, into /dev/null: of one replica, and of all of them

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
START_S = 5.0
"""What an audit may take to get ready, beyond the dump of all replicas of large batches."""
REPLICAS = 3
KAFKA_TOOLS = "kafka-tools-4.3.1"
DUMP_OPTIONS = (
    "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
"""What kafka-run-class.sh starts a tool's JVM with."""
META_PROPERTIES = (
    "version=1\nnode.id={node_id}\ncluster.id=benchmark-cluster-0000\ndirectory.id=benchmark-directory-00\n"
)
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


def snapshot(cache: Path, log: Path, replicas: int) -> Path:
    """Lay the log out as a plain copy of brokers with a replica each; return its directory."""
    root = cache / "snapshots" / f"{log.stem}-{replicas}"
    for node_id in range(1, replicas + 1):
        replica = root / f"broker-{node_id}" / "bench-0"
        replica.mkdir(parents=True, exist_ok=True)
        (root / f"broker-{node_id}" / "meta.properties").write_text(META_PROPERTIES.format(node_id=node_id))
        segment = replica / f"{0:020d}.log"
        if not segment.exists() or segment.stat().st_size != log.stat().st_size:
            segment.unlink(missing_ok=True)
            try:
                os.link(log, segment)
            except OSError:
                shutil.copyfile(log, segment)
    return root


def audit(directory: Path, out: Path, home: Path, master: str | None) -> float:
    """Run a whole audit; return its seconds. Exits if it does not read the log to its end."""
    command = [sys.executable, "-m", "tidegauge", "audit", str(directory), "--out", str(out), "--fail-on", "never"]
    command += ["--master", master] if master is not None else []
    environment = {**os.environ, "TIDEGAUGE_HOME": str(home), "TIDEGAUGE_STORE_URL": ""}
    seconds = run(command, environment)
    coverage = json.loads((out / "report.json").read_text())["coverage"]
    size = sum(path.stat().st_size for path in directory.rglob("*.log"))
    if coverage["bytes"] != size:
        sys.exit(f"The audit read {coverage['bytes']} of {size} bytes: there is nothing to compare.")
    return seconds


def dump(jars: Path, logs: Sequence[Path], *options: str) -> list[str]:
    """Give the dump tool's command line."""
    return [
        "java", *DUMP_OPTIONS, "-cp", f"{jars}/*", "org.apache.kafka.tools.DumpLogSegments", "--files",
        ",".join(map(str, logs)), *options,
    ]  # fmt: skip


def must_dump(jars: Path, log: Path) -> None:
    """Exit unless the tool prints batch headers: its exit status would not tell."""
    done = subprocess.run(dump(jars, [log], "--max-bytes", "100000"), capture_output=True, text=True, check=False)
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


def measure(
    log: Path, replicas: int, cache: Path, jars: Path, runs: int, master: str | None
) -> tuple[float, float, float]:
    """Return the median seconds of the audit, of the dump of one replica, and of the dump of all."""
    directory, home = snapshot(cache, log, replicas), cache / "home"
    segments = sorted(directory.rglob("*.log"))
    must_dump(jars, segments[0])
    audits, dumps, all_dumps = list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory(dir=cache) as out:
        audit(directory, Path(out, "warm"), home, master)
        run(dump(jars, segments))
        for number in range(runs):
            audits.append(audit(directory, Path(out, str(number)), home, master))
            dumps.append(run(dump(jars, segments[:1])))
            all_dumps.append(run(dump(jars, segments)) if replicas > 1 else dumps[-1])
    return statistics.median(audits), statistics.median(dumps), statistics.median(all_dumps)


def main() -> int:
    """Measure every log; return the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--size-mb", type=int, default=500, help="size of each log (default 500)")
    arguments.add_argument("--runs", type=int, default=3, help="measured rounds, the median counts (default 3)")
    arguments.add_argument("--master", help="a Spark master for the audits (default: as an audit decides)")
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
    print(f"  {'log':26}{'audit':>9}{'dump of one':>13}{'of all':>9}   audit / dump of one", flush=True)
    size = options.size_mb
    contests = [(shape, size, replicas) for shape in SHAPES for replicas in (1, REPLICAS)]
    seconds = {}
    for shape, size_mb, replicas in (*contests, ("small", SMALLEST_MB, 1)):
        log = cached_log(cache, shape, size_mb)
        took = seconds[shape, size_mb, replicas] = measure(log, replicas, cache, jars, options.runs, options.master)
        name = f"{shape}, {replicas} x {size_mb} MB"
        print(f"  {name:26}{took[0]:7.1f} s{took[1]:11.1f} s{took[2]:7.1f} s{took[0] / took[1]:15.2f}", flush=True)
    audited, one, _ = seconds["small", size, REPLICAS]
    reached = audited <= one
    print(f"bar: of {REPLICAS} x small at most the dump of one: {'reached' if reached else 'MISSED'}")
    audited, _, every = seconds["large", size, REPLICAS]
    in_time = audited <= every + START_S
    print(f"bar: of {REPLICAS} x large at most their dump and {START_S:.0f} s: {'reached' if in_time else 'MISSED'}")
    return 0 if reached and in_time else 1


if __name__ == "__main__":
    sys.exit(main())
