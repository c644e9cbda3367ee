"""Great Expectations in a process of its own, which gets ready while the audit reads and derives.

In: a store's URL, runs and invariants. Out: what `expectations.gx.validation.validate` returns or raises. The library
takes seconds to import, most of them of a processor that other work would have to share.

A question and its answer are a line of JSON each. The store's URL may hold a password, so it goes through the pipe and
stands on no command line. The process ends when the pipe does, however its parent came to its end.
"""

import gc
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from types import ModuleType
from typing import IO, Any, Final

from tidegauge.expectations.agreement import Validation
from tidegauge.expectations.errors import EvaluationError
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.registry import CATALOGUE
from tidegauge.runs.errors import UnavailableError
from tidegauge.runs.signals import held_back
from tidegauge.snapshots.child_environment import LIBPQ, of_python

Validate = Callable[[str, Sequence[str], Iterable[Invariant]], Mapping[str, Mapping[str, Validation]]]

_NOT_WANTED: Final = ("pyspark", "boto3", "botocore", "google", "grpc")
"""What the library imports where it finds it, and goes without elsewhere: a seventh of its start. Postgres needs none
of them.
"""
_NOT_ASKED: Final = ("scipy.stats", "altair")
"""What the library cannot be imported without, and asks for nothing but tests of distributions and drawings: a third of
its start. An empty module stands in for each, so whoever did ask would get an error and no answer.
"""
_RAISED: Final = {kind.__name__: kind for kind in (EvaluationError, ConnectionError)}
"""What `validate` says that it raises."""


@contextmanager
def validating() -> Iterator[Validate]:
    """The process, from now until the block ends; in it, a function that asks it."""
    process = _started()
    questions, answers = process.stdin, process.stdout
    assert questions is not None, "it is a pipe"
    assert answers is not None, "it is a pipe"

    def validate(
        url: str, run_ids: Sequence[str], invariants: Iterable[Invariant]
    ) -> Mapping[str, Mapping[str, Validation]]:
        question = {"url": url, "run_ids": list(run_ids), "codes": [i.code for i in invariants]}
        try:
            questions.write(json.dumps(question) + "\n")
            questions.flush()
            answer = answers.readline()
        except BrokenPipeError:
            answer = ""
        if not answer.endswith("\n"):
            raise UnavailableError(
                f"The process in which Great Expectations runs ended with {process.wait()}. If nobody killed it, the "
                "system may have, for want of memory: its log says so. Run the same again."
            )
        return _read(json.loads(answer))

    try:
        yield validate
    finally:
        process.kill()  # It reads, and writes nothing.
        process.wait()
        answers.close()
        with open(os.devnull, "w") as nobody:  # What was not yet sent need not be.
            os.dup2(nobody.fileno(), questions.fileno())
        questions.close()


def _started() -> "subprocess.Popen[str]":
    # A signal in the middle would leave a process that nobody knows. One of the terminal is the audit's alone.
    with held_back():
        return subprocess.Popen(
            [sys.executable, "-m", "tidegauge.audit.validate_apart"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env=of_python(*LIBPQ, "GX_"),
        )  # fmt: skip


def _read(answer: Any) -> Mapping[str, Mapping[str, Validation]]:
    if "found" in answer:
        return {
            run_id: {code: Validation(**validation) for code, validation in of_run.items()}
            for run_id, of_run in answer["found"].items()
        }
    error = _RAISED.get(answer["raised"], RuntimeError)(answer["text"])
    error.add_note(answer["trace"])
    raise error


def _serve(questions: IO[str], answers: IO[str]) -> None:
    """Answers one question after the other."""
    sys.modules.update(dict.fromkeys(_NOT_WANTED))  # type: ignore[arg-type]  # None: as if it were not installed.
    sys.modules.update({name: ModuleType(name) for name in _NOT_ASKED})
    gc.disable()  # What is imported stays: to look through it for garbage takes a fifth of the time.
    from tidegauge.expectations.gx.validation import validate

    gc.enable()

    for line in questions:
        question = json.loads(line)
        try:
            invariants = [CATALOGUE[code] for code in question["codes"]]
            found = validate(question["url"], question["run_ids"], invariants=invariants)
            answer: dict[str, object] = {
                "found": {run_id: {code: asdict(v) for code, v in of_run.items()} for run_id, of_run in found.items()}
            }
        except Exception as error:
            kind = next((name for name, kind in _RAISED.items() if isinstance(error, kind)), type(error).__name__)
            answer = {"raised": kind, "text": str(error), "trace": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Whatever the library prints must not be taken for an answer.
    kept = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        _serve(sys.stdin, kept)
    except BrokenPipeError:
        os._exit(0)  # Who asked was killed. Python would try to send the answer once more, and complain.
