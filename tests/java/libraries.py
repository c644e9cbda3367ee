"""Jars for the tests, and Java programs of ours over them: brought or compiled once, kept outside the checkout.

In: the name of a directory beside this file that holds a `pom.xml`; sources. Out: a Java class path; a directory of
classes. A machine without Maven or Java is told so, and the test fails; nothing is skipped.

The cache is `TIDEGAUGE_JARS`, else `tidegauge/jars` in the user's cache directory; one folder a pom or program, by its
content.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

import platformdirs

_HERE: Final = Path(__file__).parent


def jars_directory() -> Path:
    """Where the jars are kept from one run to the next."""
    named = os.environ.get("TIDEGAUGE_JARS")
    return Path(named).expanduser() if named else platformdirs.user_cache_path("tidegauge") / "jars"


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """What is kept among the jars under this name; `make` lays it at the path that it is given, if it is not there."""
    target = jars_directory() / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    # Several test processes may want the same at once: one makes it.
    with (target.parent / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            unfinished = target.with_name(f".{name}.partial")
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(target)
    return target


@cache
def jars(name: str) -> Path:
    """The folder of the jars that `<name>/pom.xml` asks for; brings them if they are not there."""
    pom = _HERE / name / "pom.xml"
    return kept(f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}", partial(_bring, pom))


def classpath(*names: str) -> str:
    """A class path of all jars of these poms, in an order that stays the same: archives of classes depend on it."""
    return os.pathsep.join(str(jar) for name in names for jar in sorted(jars(name).glob("*.jar")))


def tool(name: str) -> str:
    """A command of the JDK."""
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(
            f"These tests run Java programs, and there is no `{name}` on the PATH. "
            "On Debian and Ubuntu: apt install default-jdk-headless"
        )
    return found


def program(name: str, sources: Sequence[Path], libraries: str) -> str:
    """The class path of a program of ours; compiles it where these very sources have not been yet."""
    content = hashlib.sha256(libraries.encode())
    for source in sources:
        content.update(source.read_bytes())
    classes = kept(f"{name}-{content.hexdigest()[:12]}", partial(_compile, sources, libraries))
    # Behind the libraries, as an archive of their classes wants it.
    return f"{libraries}{os.pathsep}{classes}"


def _compile(sources: Sequence[Path], libraries: str, target: Path) -> None:
    done = subprocess.run(
        [tool("javac"), "-nowarn", "-proc:none", "--release", "17", "-cp", libraries, "-d", target, *sources],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"javac does not take {', '.join(source.name for source in sources)}:\n{done.stderr}")


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
