"""What judging costs: a whole evaluation of the catalogue on a real capture, and each invariant as facts grow.

    python benchmarks/invariants.py [--runs 3] [--rows 10000 100000 1000000] [--codes A01 D02] [--only whole]

In: the golden captures, the cases of the catalogue's tests. Out: tables on standard output; the exit status is 1 when a
bar is missed. Nothing is kept but a home of the embedded Postgres under the system's temporary directory.

    whole    `tidegauge audit` of the capture `healthy`, in a fresh process each time: how long Java, Spark's session
             and its first Python worker take to start, and how long all that follows takes, from the first look at a
             file to the last page of data docs. Bar: LIMIT_S beyond the start.
    growth   the facts of sound captures, multiplied in an embedded Postgres until an invariant's relation has so many
             rows, and one row for each of its breached cases; and on them the query that counts the invariant's states
             and the one that fetches its breaches, each alone. Bar: a row of the largest number costs at most FLAT
             times a row of the number before.

Each query runs `--runs` times, the quickest counts: what disturbs a measurement only ever makes it longer. Sizes take
turns within an invariant, so that a slow minute hits all of them. An invariant that comes out above the bar runs as
often again, up to SERIES times: a cost that truly grows faster than its rows stays above it.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg2
import yaml
from psycopg2.extras import Json

from tidegauge import store
from tidegauge.derivation.in_process import derive_here
from tidegauge.embedded import postgres
from tidegauge.embedded.archive import unpack
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE, RULESET_VERSION, by_relation, folder_name
from tidegauge.expectations.verdicts import breach_query, count_query
from tidegauge.relations import RELATIONS
from tidegauge.runs.run import AuditedSnapshot, ReadSnapshot
from tidegauge.snapshots.adopt import open_snapshot

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests/golden"
INVARIANTS = ROOT / "expectations/invariants"
LIMIT_S = 20.0
"""An evaluation of `healthy` may take so long beyond the start of Spark."""
FLAT = 1.5
"""A row among a million may cost so many times what a row among a hundred thousand does."""
SOUND: Mapping[str, str | None] = {"healthy": None, "tiered": None, "kafka-3.9": None, "pair-clean-b2": "pair-clean-b1"}
"""Captures whose facts are multiplied, and the earlier capture that they are compared with."""
SERIES = 4
"""So many times `--runs` at most."""
OF_ALL = "of all"
WORST = 10


# ------------------------------------------------------------------------------------------------ one whole evaluation


def one_audit(capture: Path, out: Path) -> None:
    """Run by a process of its own: starts Spark, audits, and prints what either took."""
    begin = time.perf_counter()
    from tidegauge.spark_jobs.session import start

    session = start()
    session.range(2).mapInPandas(lambda parts: parts, "id long").count()
    started = time.perf_counter()
    from tidegauge.audit.request import AuditRequest
    from tidegauge.audit.steps import audit

    marks: list[tuple[str, float]] = []
    result = audit(
        AuditRequest(snapshots=(str(capture),), out=out, fail_on="never", store=None),
        master=None,
        progress=lambda said: marks.append((said.split(":")[0], time.perf_counter())),
    )
    ended = time.perf_counter()
    steps = zip(marks, [at for _, at in marks[1:]] + [ended], strict=True)
    report = json.loads(result.reports[0].read_text())
    print(
        json.dumps(
            {
                "start": started - begin,
                "audit": ended - started,
                "steps": {name: until - at for (name, at), until in steps},
                "invariants": len(report["invariants"]),
            }
        )
    )


def whole(work: Path, runs: int) -> bool:
    """The capture `healthy`, `runs` times in a fresh process, after one that nobody counts."""
    capture = unpack(GOLDEN / "healthy.tar.gz", work / "golden/healthy")
    print(f"whole evaluation of `healthy`, fresh processes, warm cache, {os.cpu_count()} cores", flush=True)
    environment = {
        **os.environ,
        "TIDEGAUGE_HOME": str(work / "home"),
        "TIDEGAUGE_STORE_URL": "",
        "PYTHONPATH": str(ROOT),
    }
    found = []
    for number in range(runs + 1):
        with tempfile.TemporaryDirectory(dir=work) as out:
            command = [sys.executable, __file__, "--one-audit", str(capture), "--out", out]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            sys.exit(f"the audit failed: {done.stderr[-600:]}")
        if number:
            told = json.loads(done.stdout.splitlines()[-1])
            found.append(told)
            steps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in told["steps"].items())
            print(f"  start {told['start']:5.1f} s   beyond it {told['audit']:5.1f} s   ({steps})", flush=True)
    best = min(told["audit"] for told in found)
    reached = best <= LIMIT_S
    print(f"  {found[0]['invariants']} invariants; bar: {LIMIT_S:.0f} s beyond the start: ", end="")
    print(f"{best / LIMIT_S:.2f} of it, {'reached' if reached else 'MISSED'}", flush=True)
    return reached


# -------------------------------------------------------------------------------------------------------- growth


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds that a query took, by number of rows."""

    code: str
    relation: str
    rows: tuple[int, ...]
    counting: tuple[float, ...]
    fetching: tuple[float, ...]

    def ratio(self, seconds: Sequence[float]) -> float:
        """What a row of the largest relation costs, in rows of the one before."""
        (few, quick), (many, slow) = list(zip(self.rows, seconds, strict=True))[-2:]
        return (slow / many) / (quick / few)

    @property
    def worst(self) -> float:
        """Of both queries; the breaches are the same few at every size."""
        return max(self.ratio(self.counting), self.ratio(self.fetching))


def stage_sound(url: str, work: Path) -> list[str]:
    """Stages the facts of sound captures as runs; returns their ids."""
    run_ids = []
    for name, earlier in SOUND.items():
        opened = open_snapshot(unpack(GOLDEN / f"{name}.tar.gz", work / "golden" / name))
        previous = open_snapshot(unpack(GOLDEN / f"{earlier}.tar.gz", work / "golden" / earlier)) if earlier else None
        snapshot = AuditedSnapshot(
            root=opened.root,
            target=work,
            manifest=opened.manifest,
            previous=ReadSnapshot(root=previous.root, manifest=previous.manifest) if previous else None,
        )
        key = store.RunKey(cluster=name, snapshot_id=name, ruleset_version=RULESET_VERSION)
        now = datetime.now(UTC)
        run_id = store.open_run(url, key, consistency="fuzzy", source="adopted", started_at=now)
        tables = derive_here(snapshot).tables
        for relation in RELATIONS.keys() & tables:
            store.stage(url, run_id, relation, tables[relation])
        run_ids.append(run_id)
    return run_ids


class Grown:
    """One relation's table in a store, with runs of several sizes in it."""

    def __init__(self, cursor: Any, relation: str, members: Sequence[Invariant], sound: Sequence[str]) -> None:
        self._cursor = cursor
        self._relation = RELATIONS[relation]
        self._members = members
        self._sound = list(sound)
        self._defaults = yaml.safe_load((INVARIANTS / "sound_rows.yaml").read_text(encoding="utf-8"))[relation]

    def fill(self, sizes: Iterable[int]) -> None:
        """A run for each size: sound rows, over and over, and behind them the invariants' breached cases."""
        own = self._one("SELECT count(*) FROM {table} WHERE run_id = ANY(%s)", self._sound)
        if not own:
            for case in self._cases("holds_"):
                self._insert("sound", case)
            self._sound = ["sound"]
            own = self._one("SELECT count(*) FROM {table} WHERE run_id = ANY(%s)", self._sound)
        columns = ", ".join(f'"{name}"' for name in self._relation.column_names)
        for size in sizes:
            breached = self._cases("breached_")
            wanted = size - len(breached)
            self._do(
                f"INSERT INTO {{table}} (run_id, {columns}) SELECT %s, {columns} FROM {{table}}, "
                f"generate_series(1, %s) WHERE run_id = ANY(%s) LIMIT %s",
                f"rows-{size}", wanted // own + 1, self._sound, wanted,
            )  # fmt: skip
            for case in breached:
                self._insert(f"rows-{size}", case)
        self._do("ANALYZE {table}")

    def empty(self) -> None:
        """Makes room for the next relation."""
        self._do("TRUNCATE {table}")

    def seconds(self, query: str, size: int) -> float:
        """How long a query takes, to its last row."""
        begin = time.perf_counter()
        self._cursor.execute(query.replace("%", "%%").replace(":run_ids", "%s"), ([f"rows-{size}"],))
        self._cursor.fetchall()
        return time.perf_counter() - begin

    def _cases(self, beginning: str) -> list[Mapping[str, Any]]:
        found = []
        for invariant in self._members:
            folder = INVARIANTS / folder_name(invariant.code, invariant.name)
            cases = yaml.safe_load((folder / "cases.yaml").read_text(encoding="utf-8"))
            found += [self._defaults | case["row"] for name, case in cases.items() if name.startswith(beginning)]
        return found

    def _insert(self, run_id: str, row: Mapping[str, Any]) -> None:
        types = {column.name: column.type for column in self._relation.columns}
        given = {name: Json(v) if types[name] == "json" and v is not None else v for name, v in row.items()}
        values = {"run_id": run_id, "cluster": "c", "snapshot_id": "s"} | given
        names = ", ".join(f'"{name}"' for name in values)
        self._do(f"INSERT INTO {{table}} ({names}) VALUES ({', '.join(['%s'] * len(values))})", *values.values())

    def _do(self, statement: str, *values: object) -> None:
        self._cursor.execute(statement.format(table=f"tidegauge.{self._relation.name}"), values)

    def _one(self, statement: str, *values: object) -> int:
        self._do(statement, *values)
        return int(self._cursor.fetchone()[0])


def measure(grown: Grown, relation: str, members: Sequence[Invariant], sizes: Sequence[int], runs: int) -> list[Cost]:
    """Each invariant alone, and all of the relation in one query, as an audit counts them."""
    costs = []
    for code, judged in [*((i.code, [i]) for i in members), (OF_ALL, list(members))]:
        counting, fetching = dict.fromkeys(sizes, float("inf")), dict.fromkeys(sizes, float("inf"))
        for _ in range(SERIES):
            for _, size in itertools.product(range(runs), sizes):
                counting[size] = min(counting[size], grown.seconds(count_query(relation, judged, as_stated=True), size))
                fetched = 0.0 if code == OF_ALL else grown.seconds(breach_query(judged[0]), size)
                fetching[size] = min(fetching[size], fetched)
            of_sizes = [tuple(times[size] for size in sizes) for times in (counting, fetching)]
            cost = Cost(code=code, relation=relation, rows=tuple(sizes), counting=of_sizes[0], fetching=of_sizes[1])
            if code == OF_ALL or cost.worst <= FLAT:
                break
        costs.append(cost)
    return costs


def growth(work: Path, sizes: Sequence[int], codes: Sequence[str], runs: int) -> bool:
    """Every relation in turn."""
    chosen = [i for i in CATALOGUE.values() if not codes or i.code in codes]
    costs: list[Cost] = []
    with (
        tempfile.TemporaryDirectory(prefix="tidegauge-bench-") as directory,
        postgres.running(Path(directory) / "postgres", remove=True) as embedded,
    ):
        url = embedded.fresh_database("growth")
        store.migrate(url)
        sound = stage_sound(url, work)
        print(f"\ncost as facts grow, quickest of {runs}; ms of {', '.join(f'{n:,}' for n in sizes)} rows", flush=True)
        print(f"  {'':7}{'relation':22}{'counting':>26}{'fetching breaches':>27}  s/million  last/before", flush=True)
        connection = psycopg2.connect(url.replace("postgresql+psycopg2", "postgresql"))
        connection.autocommit = True
        with connection.cursor() as cursor:
            for relation, members in by_relation(chosen).items():
                grown = Grown(cursor, relation, members, sound)
                grown.fill(sizes)
                for cost in measure(grown, relation, members, sizes, runs):
                    costs.append(cost)
                    print(line(cost), flush=True)
                grown.empty()
        connection.close()
        store.release(*sound)
    return told(costs)


def line(cost: Cost) -> str:
    """A row of the table."""
    counting, fetching = (" ".join(f"{s * 1000:8.1f}" for s in times) for times in (cost.counting, cost.fetching))
    per_million = cost.counting[-1] / cost.rows[-1] * 1e6
    ratio = cost.ratio(cost.counting) if cost.code == OF_ALL else cost.worst
    return f"  {cost.code:7}{cost.relation:22}{counting:>26}{fetching:>27}{per_million:11.2f}{ratio:13.2f}"


def told(costs: Sequence[Cost]) -> bool:
    """The dearest, the steepest, and whether all are flat."""
    alone = [cost for cost in costs if cost.code != OF_ALL]
    together = [cost for cost in costs if cost.code == OF_ALL]
    dearest = sorted(alone, key=lambda c: -c.counting[-1] / c.rows[-1])[:WORST]
    steepest = sorted(alone, key=lambda c: -c.worst)[:WORST]
    named = (f"{c.code} {c.counting[-1] / c.rows[-1] * 1e6:.2f}" for c in dearest)
    print(f"\ndearest, seconds a million rows: {', '.join(named)}")
    print(
        f"steepest, cost of a row in rows of the size before: {', '.join(f'{c.code} {c.worst:.2f}' for c in steepest)}"
    )
    apart, at_once = (sum(c.counting[-1] for c in of) for of in (alone, together))
    print(f"counting {len(alone)} invariants of {costs[0].rows[-1]:,} rows: {at_once:.1f} s, one by one {apart:.1f} s")
    reached = all(cost.worst <= FLAT for cost in alone)
    print(f"bar: at most {FLAT} times a row: {'reached' if reached else 'MISSED'}")
    return reached


def main() -> int:
    """Measures and prints; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="measured rounds, the quickest counts (default 3)")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="sizes, two or more")
    parser.add_argument("--codes", nargs="+", default=[], help="invariants whose growth is measured (default: all)")
    parser.add_argument("--only", choices=("whole", "growth"), help="one of the two")
    parser.add_argument("--one-audit", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_audit is not None:
        one_audit(options.one_audit, options.out)
        return 0
    work = Path(tempfile.gettempdir()) / "tidegauge-benchmarks" / "invariants"
    work.mkdir(parents=True, exist_ok=True)
    reached = [
        measured()
        for name, measured in (
            ("whole", lambda: whole(work, options.runs)),
            ("growth", lambda: growth(work, sorted(options.rows), options.codes, options.runs)),
        )
        if options.only in (None, name)
    ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
