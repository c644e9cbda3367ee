"""Jars for the tests: brought by Maven once, kept in a cache outside the checkout.

In: the name of a directory beside this file that holds a `pom.xml`. Out: a Java class path. A machine without Maven or
Java is told so, and the test fails; nothing is skipped.

The cache is `TIDEGAUGE_JARS`, else `tidegauge/jars` in the user's cache directory; one folder a pom, by its content.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import platformdirs

_HERE: Final = Path(__file__).parent


def jars_directory() -> Path:
    """Where the jars are kept from one run to the next."""
    named = os.environ.get("TIDEGAUGE_JARS")
    return Path(named).expanduser() if named else platformdirs.user_cache_path("tidegauge") / "jars"


@cache
def jars(name: str) -> Path:
    """The folder of the jars that `<name>/pom.xml` asks for; brings them if they are not there."""
    pom = _HERE / name / "pom.xml"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    target = jars_directory() / f"{name}-{digest}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # Several test processes may want the same jars at once: one brings them.
    with (target.parent / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            partial = target.with_name(f".{target.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            _bring(pom, partial)
            partial.rename(target)
    return target


def classpath(*names: str) -> str:
    """A class path of all jars of these poms."""
    return os.pathsep.join(f"{jars(name)}/*" for name in names)


def _bring(pom: Path, target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError(
            "These tests run a real Kafka, whose jars are brought by Maven, and there is no `mvn` on the PATH. "
            "On Debian and Ubuntu: apt install maven"
        )
    done = subprocess.run(
        [maven, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={target}",
         "-DincludeScope=runtime"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"Maven could not bring the jars of {pom}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
