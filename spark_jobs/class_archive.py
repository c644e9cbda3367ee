"""An archive of Spark's classes, so that a JVM maps them ready to use (the JDK's class data sharing, JEP 350).

In: one short run of the kind of jobs an audit consists of. Out: a file under the environment's own `share/`, 180 MB,
that takes six seconds off every later session. Spark never needs it. Where it is missing, or belongs to another Java or
another Spark, the JVM starts without it and says nothing.

`python -m tidegauge.spark_jobs.make_class_archive` makes it, unless it is there; `make` does so when it makes the
environment.
"""

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.spark_jobs.java import Java

if TYPE_CHECKING:
    pass

# A JVM prints its warnings about an archive on standard output, which belongs to our results.
_QUIET: Final = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")


def options(java: Java) -> tuple[str, ...]:
    """The JVM's flags for using the archive; none where there is no archive."""
    archive = path(java)
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET) if archive.is_file() else ()


def path(java: Java) -> Path:
    """Where the archive for this Java and this Spark is, or would be."""
    import pyspark

    release = java.home / "release"
    parts = (
        str(java.home.resolve()),
        release.read_text() if release.is_file() else "",
        pyspark.__file__,
        pyspark.__version__,
    )
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "tidegauge" / f"spark-classes-{digest}.jsa"
