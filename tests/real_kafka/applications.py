"""Programs of Kafka's own client libraries beside the test clusters: Streams, share consumers, MirrorMaker.

In: a Java program and its arguments. Out: a running process, what it prints, its end. A program ends with whoever
started it. If one dies too early, the error shows its last words.
"""

import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from tests.java.libraries import classpath
from tests.real_kafka import processes
from tests.real_kafka.patience import PATIENCE_S, wait_until
from tests.real_kafka.settings import LOGGING

CLIENTS: Final = "clients-4.3"
"""Streams and MirrorMaker; those of 4.4 are not all in Maven Central."""
_HERE: Final = Path(__file__).parent


class Application:
    """A context manager: the program runs inside, and is asked to end by closing its standard input."""

    def __init__(self, program: str, *arguments: str, libraries: str, directory: Path, on_end: str = "close") -> None:
        """`program` is a source file beside this one, or a class. `on_end`: `close` its input, or `terminate` it."""
        directory.mkdir(parents=True, exist_ok=True)
        logging = directory / "logging.properties"
        logging.write_text(LOGGING["tools"][1])
        source = [str(_HERE / program)] if program.endswith(".java") else [program]
        command = ["java", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dlog4j2.configurationFile={logging}", "-cp", classpath(libraries), *source, *arguments]
        self._name, self._on_end = program, on_end
        self._errors = directory / "errors.log"
        self._lines: list[str] = []
        with self._errors.open("ab") as errors:
            self._process = processes.start(
                command, output=subprocess.PIPE, stdin=subprocess.PIPE, stderr=errors, cwd=directory
            )
        threading.Thread(target=self._listen, name=f"listens-to-{program}", daemon=True).start()

    def __enter__(self) -> "Application":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes.kill(self._process)

    def wait_said(self, line: str) -> None:
        """Waits until it has printed this line."""
        wait_until(lambda: line in self.said(), what=f"{self._name} to say {line!r}")

    def wait_count(self, word: str, count: int) -> None:
        """Waits until it has printed this word with a number as great as this."""
        wait_until(
            lambda: any(int(line.split()[1]) >= count for line in self.said() if line.startswith(f"{word} ")),
            what=f"{self._name} to say {word} {count}",
        )

    def said(self) -> Sequence[str]:
        """What it has printed so far; an error if it has died."""
        if self._process.poll() not in (None, 0):
            raise RuntimeError(f"{self._name} died:\n{self._errors.read_text(errors='replace')[-3000:]}")
        return list(self._lines)

    def close(self) -> None:
        """Lets it end in its own way."""
        if self._on_end == "terminate":
            self._process.terminate()
        elif self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=PATIENCE_S)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.decode(errors="replace").rstrip("\n"))
