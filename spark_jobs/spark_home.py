"""A Spark home whose Python workers start fast: PySpark's own directories, without its zipped copy of PySpark.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` before everything else on a Python worker's path, if it is there.
Modules in a zip are compiled anew at each start, 0.5 s of it, and one audit starts four such processes, one after the
other; the same modules stand in site-packages, compiled once. So, for local masters, `SPARK_HOME` is a directory of
links that leaves the zip out. Nothing of the installed package is touched, and where the directory cannot be made,
PySpark's own home serves.
"""

import os
import sys
from pathlib import Path
from typing import Final

_PARTS: Final = ("bin", "jars", "sbin")


def spark_home() -> Path:
    """The directory of links, made on first use."""
    import pyspark

    installed = Path(pyspark.__file__).parent
    home = Path(sys.prefix) / "share" / "tidegauge" / "spark"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for part in _PARTS:
            _link(home / part, installed / part)
    except OSError:
        return installed
    return home


def _link(link: Path, target: Path) -> None:
    """`link` points to `target`; replaced in one step, so that several processes may do this at once."""
    if link.is_symlink() and os.readlink(link) == str(target):
        return
    new = link.with_name(f"{link.name}.{os.getpid()}")
    new.symlink_to(target)
    os.replace(new, link)
