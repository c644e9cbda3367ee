"""Makes the archive of Spark's classes by a rehearsal of an audit, in half a minute.

In: the Java that is found. Out: the file that `class_archive` gives to sessions, unless it is there; `make` runs
`python -m tidegauge.spark_jobs.make_class_archive` when it makes the environment.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.snapshots.child_environment import SPARK, of_python, only
from tidegauge.spark_jobs import session
from tidegauge.spark_jobs.class_archive import path
from tidegauge.spark_jobs.java import Java, find_java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def make(java: Java) -> Path | None:
    """Makes the archive; None where this Java cannot or the place cannot be written. Takes about half a minute."""
    archive = path(java)
    partial = archive.with_suffix(f".{os.getpid()}")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        _ensure_base_archive(java)
        rehearsal = [sys.executable, "-m", "tidegauge.spark_jobs.make_class_archive", "rehearse", str(partial)]
        subprocess.run(rehearsal, check=True, capture_output=True, timeout=600, env=of_python(*SPARK))
        os.replace(partial, archive)
    except (OSError, subprocess.SubprocessError):
        partial.unlink(missing_ok=True)
        return None
    return archive


def _ensure_base_archive(java: Java) -> None:
    """An archive stands on the JDK's own, which trimmed runtimes come without; they can make it."""
    command = java.home / "bin" / "java"
    if subprocess.run([command, "-Xshare:on", "-version"], capture_output=True, timeout=60, env=only()).returncode:
        subprocess.run([command, "-Xshare:dump"], capture_output=True, timeout=120, check=True, env=only())


def _rehearse(partial: str) -> None:
    from pyspark import SparkContext

    recorder = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={partial} -XX:+UseSerialGC -Xlog:disable"}
    spark = session.start("local[2]", extra=recorder)
    _touch_everything(spark, Path(partial).with_suffix(".parquet"))
    gateway = SparkContext._gateway
    assert gateway is not None, "a session has a gateway"
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when its standard input does, and writes the archive then
    gateway.proc.wait()


def _touch_everything(spark: "SparkSession", directory: Path) -> None:
    """Runs what an audit runs, on nothing, so that its classes are loaded: Python sources, Arrow, shuffles, Parquet,
    SQL.
    """
    import shutil

    from tidegauge.spark_jobs.rehearsal import Rows

    spark.dataSource.register(Rows)
    rows = spark.read.format("rehearsal").load()
    try:
        rows.mapInArrow(_unchanged, rows.schema).write.mode("overwrite").parquet(str(directory))
        written = spark.read.parquet(str(directory))
        written.createOrReplaceTempView("written")
        written.groupBy("name").applyInArrow(_same, written.schema).toArrow()
        spark.sql(
            "SELECT name, count(*) FILTER (WHERE number > 1) AS many, max(number), collect_list(number) FROM written "
            "JOIN (SELECT DISTINCT name FROM written) USING (name) WHERE number IS NOT NULL OR name LIKE 'a%' "
            "GROUP BY name ORDER BY many"
        ).toArrow()
        spark.createDataFrame(written.toArrow()).count()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _unchanged(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    return batches


def _same(table: "pa.Table") -> "pa.Table":
    return table


if __name__ == "__main__":
    if sys.argv[1:2] == ["rehearse"]:
        _rehearse(sys.argv[2])
    else:
        found = find_java()
        if not path(found).is_file():
            make(found)
