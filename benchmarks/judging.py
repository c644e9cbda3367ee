"""What judging and publishing many facts costs: where they are, on Spark, and in the store.

In: numbers of rows. Out: a table on standard output, a row a size and way. Facts of the capture `healthy` are
multiplied until they are so many, in the shares of a cluster of three replicas a partition and fifteen segments a
replica, and a few of them breach. Each way is a process of its own, which starts Spark if it judges there, and ends
when its run is published. The exit status is 1 when `MANY` rows, judged where they are, take longer than `BAR_S`, or
the driver has `DRIVER_GROWTH` times the memory that it has with a tenth of them.

    PYTHONPATH=. python benchmarks/judging.py [--rows 1000000 10000000] [--both 1000000]

`--both`: the sizes that are judged in the store, too. Multiplied facts have the same numbers over and over, so their
files are far smaller than a cluster's, and read sooner; what is judged of a row is the same.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from benchmarks.cost import KINDS, Cost, cost_of
from tidegauge.derivation.fact_files import PartWriter, read_relation, write_empty_relations
from tidegauge.derivation.in_process import derive_run
from tidegauge.embedded.archive import unpack
from tidegauge.expectations import invariants
from tidegauge.expectations.registry import CATALOGUE, by_relation, folder_name
from tidegauge.relations import RELATIONS
from tidegauge.runs.run import MANY_ROWS, Run, load, new_run

MANY: Final = 10_000_000
BAR_S: Final = 180.0
DRIVER_GROWTH: Final = 1.5
SHARES: Final[Mapping[str, int]] = {
    "partitions": 1, "replicas": 3, "epoch_spans": 6, "divergences": 2, "isr_members": 2, "partition_directories": 3,
    "upkeep": 3, "producers": 3, "segments": 45, "index_files": 90,
}  # fmt: skip
"""Rows of each relation a partition: three replicas, fifteen segments on each, two indexes a segment."""
_BREACHED: Final = 20
"""Rows of each case of a breach, among whichever number."""
_CHUNK: Final = 100_000
_WAYS: Final = ("spark", "store")


# ----------------------------------------------------------------------------------------------------------- the facts


def made(capture: Path, directory: Path, rows: int) -> None:
    """A run directory of which the derive step is done, with about so many rows of facts."""
    run = new_run(
        directory, (str(capture),), store_url=None, fail_on="never", started_at_ms=0, data_docs=False,
        many_rows=min(rows // 10, MANY_ROWS),
    )  # fmt: skip
    derive_run(run)
    facts = run.snapshots[0].target / "facts"
    sound = {name: read_relation(facts, name) for name in SHARES}
    partitions = rows // sum(SHARES.values())
    for name, share in SHARES.items():
        shutil.rmtree(facts / name)
        for part, table in enumerate(_multiplied(sound[name], partitions * share)):
            writer = PartWriter(facts, f"{part:05d}")
            writer.write(name, table)
            writer.close()
        writer = PartWriter(facts, "breached")
        writer.write(name, _breached(name, sound[name]))
        writer.close()
    write_empty_relations(facts)


def _multiplied(sound: pa.Table, rows: int) -> Iterator[pa.Table]:
    """The rows over and over, each time of other topics."""
    for begin in range(0, rows, _CHUNK):
        at = pa.array(range(begin, min(begin + _CHUNK, rows)), pa.int64())
        time = pc.divide(at, sound.num_rows)
        table = sound.take(pc.subtract(at, pc.multiply(time, sound.num_rows)))
        topic = pc.binary_join_element_wise(table["topic"], time.cast(pa.string()), "-")
        yield table.set_column(table.schema.get_field_index("topic"), "topic", topic)


def _breached(relation: str, sound: pa.Table) -> pa.Table:
    folder = Path(invariants.__path__[0])
    defaults = yaml.safe_load((folder / "sound_rows.yaml").read_text(encoding="utf-8"))[relation]
    found = []
    for invariant in by_relation(CATALOGUE.values())[relation]:
        cases = yaml.safe_load((folder / folder_name(invariant.code, invariant.name) / "cases.yaml").read_text("utf-8"))
        rows = [defaults | case["row"] for name, case in cases.items() if name.startswith("breached_")]
        found += [{**row, "topic": f"breached-{invariant.code}-{n}"} for row in rows for n in range(_BREACHED)]
    nested = {column.name for column in RELATIONS[relation].columns if column.type == "json"}
    common = {name: sound[name][0].as_py() for name in ("cluster", "snapshot_id")}
    kept = [{n: None if n in nested else v for n, v in row.items()} | common for row in found]
    return pa.Table.from_pylist(kept, schema=sound.schema)


# --------------------------------------------------------------------------------------------------------- the two ways


def one(way: str, run: Run) -> None:
    """Judges the facts of a run and publishes it; called in a process of its own."""
    from tidegauge.audit.evaluate import evaluate
    from tidegauge.audit.publication import publish
    from tidegauge.audit.validate_apart import validating
    from tidegauge.embedded.store_in_use import store_at
    from tidegauge.runs.survivors import going_on

    with ExitStack() as open_until_published:
        validate = open_until_published.enter_context(validating())
        url = open_until_published.enter_context(store_at(None))
        if way == "spark":
            from tidegauge.spark_jobs.judging import judge_many
            from tidegauge.spark_jobs.session import start, stop

            spark = start("local[2]")
            judge_many(spark, run)
            stop(spark)
            going_on(run)
        evaluate(run, url, validate=validate)
        publish(run, url)


def measured(way: str, capture: Path, scratch: Path, rows: int) -> Cost:
    """One way, on facts of its own, in a store of its own."""
    place = scratch / f"{way}-{rows}"
    made(capture, place / "run", rows)
    home = place / "home"
    environment = {**os.environ, "TIDEGAUGE_HOME": str(home), "TIDEGAUGE_STORE_URL": ""}
    command = [sys.executable, "-m", "benchmarks.judging", "--one", way, "--run", str(place / "run")]
    cost = cost_of(command, environment, home, makes=place / "run" / "report.json")
    shutil.rmtree(place)
    return cost


def main() -> int:
    """Measures each size; returns the exit status."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, nargs="+", default=[MANY // 10, MANY], help="sizes judged on Spark")
    arguments.add_argument("--both", type=int, nargs="*", default=[MANY // 10], help="sizes judged in the store, too")
    arguments.add_argument("--one", choices=_WAYS, help=argparse.SUPPRESS)
    arguments.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.one is not None:
        one(options.one, load(options.run))
        return 0
    costs: dict[tuple[str, int], Cost] = {}
    print(f"{os.cpu_count()} cores; processor seconds and the most MB of one process")
    print(f"{'rows':>10} {'way':8}{'seconds':>9}{'processor':>11}{''.join(f'{kind:>18}' for kind in KINDS)}")
    with tempfile.TemporaryDirectory(prefix="tgj-") as directory:
        scratch = Path(directory)
        capture = unpack(Path(__file__).resolve().parents[1] / "tests/golden/healthy.tar.gz", scratch / "healthy")
        for way, rows in [*(("store", rows) for rows in options.both), *(("spark", rows) for rows in options.rows)]:
            cost = costs[way, rows] = measured(way, capture, scratch, rows)
            print(f"{rows:>10} {way:8}{cost.whole_s:9.1f}{cost.all_processor_s:11.1f}{cost}", flush=True)
    return _judged(costs)


def _judged(costs: Mapping[tuple[str, int], Cost]) -> int:
    missed = False
    for (way, rows), cost in costs.items():
        if way == "store" and ("spark", rows) in costs:
            ratio = costs["spark", rows].all_processor_s / cost.all_processor_s
            print(f"{rows:,} rows judged where they are: {ratio:.2f} of the store's way in processor time")
    if ("spark", MANY) in costs:
        many = costs["spark", MANY]
        missed |= many.whole_s > BAR_S
        print(f"{MANY:,} rows are judged and published in {many.whole_s:.0f} s (bar {BAR_S:.0f})")
        if ("spark", MANY // 10) in costs:
            growth = many.bytes_at_most["driver"] / costs["spark", MANY // 10].bytes_at_most["driver"]
            missed |= growth > DRIVER_GROWTH
            print(f"the driver has {growth:.2f} times the memory that it has with a tenth (bar {DRIVER_GROWTH})")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
