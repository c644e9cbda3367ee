"""Kafka's own classes, asked over a pipe: the Java program beside this file, compiled once and kept with the jars.

In: jobs, each a dictionary with what `java/oracle/*.java` asks for. Out: what Kafka's classes say. One process answers
many jobs; whoever starts it stops it.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.java.libraries import classpath, program, tool

KAFKA: Final = "kafka-4.4"
SOURCES: Final = Path(__file__).parent / "java"

Job = dict[str, Any]
Answer = dict[str, Any]


class Oracle:
    """A running program. Jobs are answered in order."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, job: Job) -> Answer:
        """One job, its answer."""
        return next(self.ask_all([job]))

    def ask_all(self, jobs: Iterable[Job]) -> Iterator[Answer]:
        """Many jobs, their answers; a job is sent when the answer before it has been read."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for job in jobs:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            assert line, f"the program that asks Kafka's classes has ended at {json.dumps(job)[:2000]}"
            yield json.loads(line)


@contextmanager
def running() -> Iterator[Oracle]:
    """The program, started; stopped when the block is left. What it says on standard error is shown if it fails."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK)
    with (
        tempfile.TemporaryDirectory(prefix="tidegauge-oracle-", dir=memory if roomy else None) as scratch,
        tempfile.TemporaryFile("w+") as errors,
    ):
        arguments = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF"]
        libraries = program("oracle", sorted(SOURCES.rglob("*.java")), classpath(KAFKA))
        process = subprocess.Popen(
            [tool("java"), *arguments, "-cp", libraries, "oracle.Main", scratch],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8",
        )  # fmt: skip
        try:
            yield Oracle(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(timeout=120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            errors.seek(0)
            print(errors.read()[-4000:])
