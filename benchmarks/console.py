"""How quickly the console's pages answer over a large store: 1,000,000 breaches in 10,000 incidents, 100,000
partitions, a year of runs.

    PYTHONPATH=. python benchmarks/console.py [--clusters N] [--runs N] [--breaches N] [--incidents N] [--partitions N]
                                              [--requests 30] [--store URL] [--filled]

A fleet of 500: `--clusters 500 --runs 30 --breaches 200000`.

Fills an embedded Postgres (or an empty database of yours) in the server itself, starts the console, asks each page many
times, one request after the other, and prints the 95th percentile in ratio to the limit. Exit status 1 if one is above.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tidegauge import store
from tidegauge.addresses import Links
from tidegauge.console import server
from tidegauge.embedded import postgres

LIMIT_S = 0.3
REPLICAS = 3
EPOCHS = 2
TOPICS = 1000
LARGE = "c0"
"""The cluster that has all partitions of the newest run, and half of the breaches."""

FILL = (Path(__file__).parent / "console.sql").read_text(encoding="utf-8")


def fill(url: str, **sizes: int) -> dict[str, float]:
    """Fills an empty store; how long filling and counting took."""
    store.migrate(url)
    values: dict[str, Any] = {**sizes, "topics": TOPICS, "replicas": REPLICAS, "epochs": EPOCHS}
    started = time.perf_counter()
    with store.connect(url, "be filled") as connection, connection.cursor() as cursor:
        cursor.execute(FILL, values)
    filled = time.perf_counter()
    with store.connect(url, "be counted") as connection, connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        analysed = time.perf_counter()
        cursor.execute("SELECT tidegauge.renew_summaries(%s, NULL)", (LARGE,))
        renewed = time.perf_counter()
        cursor.execute("SELECT tidegauge.count_incidents(%s, NULL)", (LARGE,))
        counted = time.perf_counter()
        for number in range(1, sizes["clusters"]):
            cursor.execute("SELECT tidegauge.renew_summaries(%(of)s, NULL)", {"of": f"c{number}"})
            cursor.execute("SELECT tidegauge.count_incidents(%(of)s, NULL)", {"of": f"c{number}"})
        cursor.execute("ANALYZE")
    return {
        "filling": filled - started,
        f"renew_summaries of {LARGE}": renewed - analysed,
        f"count_incidents of {LARGE}": counted - renewed,
    }


def pages(console: httpx.Client, runs: int, last_partition: int) -> Iterator[tuple[str, str]]:
    """Every kind of page, with its most expensive address."""
    links = Links()
    listing = console.get(f"/breaches/figures/breaches.json?cluster={LARGE}").json()
    yield "fleet", "/"
    yield "cluster", links.cluster(LARGE)
    yield "cluster, topics by name", links.cluster(LARGE, topic="topic-9")
    yield "topic", links.topic(LARGE, "topic-7")
    yield "partition", links.partition(LARGE, "topic-7", last_partition)
    yield "breaches", "/breaches"
    yield "breaches, deep in the list", listing["next"].replace("/figures", "")
    yield "breaches of a cluster", f"/breaches?cluster={LARGE}"
    yield "breaches of a code", "/breaches?code=D07"
    yield "breaches, resolved", "/breaches?state=resolved"
    yield "breaches, acknowledged", "/breaches?state=acknowledged"
    yield "breaches, severity", "/breaches?severity=info"
    row = listing["rows"][0]
    yield "incidents", "/incidents"
    yield "incidents of a cluster", f"/incidents?cluster={LARGE}"
    yield "incident", links.incident(LARGE, "incident-0000000000")
    yield "losses of a cluster", links.losses(LARGE)
    yield "breach", links.breach(LARGE, row["breach_id"])
    yield "invariants", "/invariants"
    yield "invariant", "/invariants/D06"
    yield "runs", "/runs"
    yield "runs of a cluster", f"/runs?cluster={LARGE}"
    yield "run", links.run(f"r0-{runs}")
    yield "search, topic", "/search?q=topic-5"
    yield "search, breach", "/search?q=D06-0000"
    yield "data docs", "/data-docs"
    yield "metrics", "/metrics"


def measured(console: httpx.Client, path: str, requests: int) -> float:
    """The 95th percentile of the time to the whole answer, after a first request that nobody counts."""
    times = []
    for number in range(requests + 1):
        started = time.perf_counter()
        answer = console.get(path)
        if number:
            times.append(time.perf_counter() - started)
        if answer.status_code != 200:
            raise RuntimeError(f"{path} answered {answer.status_code}: {answer.text[:300]}")
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


@contextmanager
def database(given: str | None) -> Iterator[str]:
    """An empty database."""
    if given is not None:
        yield given
        return
    with (
        tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as directory,
        postgres.running(Path(directory) / "postgres", remove=True) as embedded,
    ):
        yield embedded.fresh_database("console")


def main() -> int:
    """Fills, asks, prints; 1 if a page is slower than the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--runs", type=int, default=365, help="of each cluster")
    parser.add_argument("--breaches", type=int, default=1_000_000)
    parser.add_argument("--incidents", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--store", help="an empty Postgres database")
    parser.add_argument("--filled", action="store_true", help="the store holds all of it from an earlier run")
    options = parser.parse_args()
    with database(options.store) as url:
        if not options.filled:
            sizes = {
                name: getattr(options, name) for name in ("clusters", "runs", "breaches", "incidents", "partitions")
            }
            for what, seconds in fill(url, **sizes).items():
                print(f"{what}: {seconds:.1f} s", flush=True)
        with (
            server.running(url, host="127.0.0.1", port=0, docs=[]) as address,
            httpx.Client(base_url=address, timeout=60, trust_env=False) as console,
        ):
            worst = 0.0
            print(f"{'page':30} {'p95':>8}  {'of 300 ms':>9}")
            for name, path in pages(console, options.runs, last_partition=options.partitions // TOPICS - 1):
                p95 = measured(console, path, options.requests)
                worst = max(worst, p95)
                print(f"{name:30} {p95 * 1000:6.0f} ms  {p95 / LIMIT_S:9.2f}", flush=True)
    return int(worst > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
