"""What spark-submit runs: `job.py index derive --run RUN`, one or more Spark steps of an audit in one application.

The exit code says how it ended: 0 done, 2 a run directory or a snapshot that cannot be used, 3 the environment, 70 an
error of our own. An error is one paragraph on standard error. Of several snapshots, one that cannot be audited is named
there, and the others go on: the step publish ends with its error.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidegauge import log
from tidegauge.progress import display_for, show
from tidegauge.runs.errors import AddressError, OwnError
from tidegauge.runs.run import Run, load
from tidegauge.snapshots.errors import AuditError, SnapshotError
from tidegauge.snapshots.location import place_of
from tidegauge.spark_jobs import session
from tidegauge.spark_jobs.jobs import derive, index

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS: Final[Mapping[str, Callable[["SparkSession", Run], None]]] = {"index": index, "derive": derive}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the steps in the order given; returns the exit code."""
    parser = argparse.ArgumentParser(prog="job.py", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("steps", nargs="+", choices=STEPS, metavar="STEP", help="index, derive")
    parser.add_argument("--run", required=True, help="the run directory that the steps share, or its URL")
    options = parser.parse_args(arguments)
    log.about_from_now(command="job")
    show(display_for())
    try:
        run = load(place_of(options.run))
        log.about_from_now(**run.ids)
        spark = session.attach(asks_object_stores=run.asks_object_stores)
        try:
            for step in options.steps:
                with session.spark_errors(step):
                    STEPS[step](spark, run)
        finally:
            spark.stop()
    except AuditError as error:
        _say(f"{'+'.join(options.steps)}: {error}", "error")
        return 70 if isinstance(error, OwnError) else 2 if isinstance(error, SnapshotError | AddressError) else 3
    for failure in run.failures.all():
        with log.about(snapshot=failure.snapshot):
            _say(f"{failure.step}: {failure.snapshot} is left out: {failure.text}")
    return 0


def _say(text: str, level: log.Level = "info") -> None:
    print(log.line(text, level), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
