"""Asking a cluster from a process of its own, so that nothing that happens to a client library happens to a capture.

In: bootstrap servers and how to reach them. Out: `ClusterAnswers`, or a `ClusterError`. Librdkafka ends its process
when one of its assertions fails, which brokers that go away in the middle of a request have made happen; a capture of
hours must not end with it. Secrets go through a pipe and are on no command line.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Final

from tidegauge.snapshots.ask import ask
from tidegauge.snapshots.child_environment import of_python
from tidegauge.snapshots.client_config import ClientConfig
from tidegauge.snapshots.cluster_answers import CapturedAnswers, ClusterAnswers, from_json, to_json
from tidegauge.snapshots.errors import ClusterError

_UNREACHABLE: Final = 3
_ATTEMPTS: Final = 3
_LAST_WORDS: Final = 800
_OF_CLIENTS: Final = (
    "KRB5",
    "SASL_PATH",
    "OPENSSL_",
    "SSL_CERT_",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
)
"""How names begin that librdkafka, its OpenSSL, Kerberos and curl (for OAuth) look at."""


def ask_apart(bootstrap: str, config: ClientConfig) -> ClusterAnswers:
    """As `ask.ask`, by a child process. Raises `ClusterError` if the cluster cannot be reached."""
    said = ""
    for _ in range(_ATTEMPTS):
        done = subprocess.run(
            [sys.executable, "-m", "tidegauge.snapshots.ask_apart"],
            input=json.dumps({"bootstrap": bootstrap, "config": asdict(config)}),
            env=of_python(*_OF_CLIENTS),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            answers = from_json(done.stdout, where=f"what {bootstrap} answered").before
            assert answers is not None
            return answers
        if done.returncode == _UNREACHABLE:
            raise ClusterError(done.stdout)
        said = f"{f'signal {-done.returncode}' if done.returncode < 0 else done.returncode}: {done.stderr.strip()}"
        if done.returncode > 0:
            break  # It would fail again.
    raise ClusterError(
        f"Asking {bootstrap} ended with {said[-_LAST_WORDS:]}. Try again, or capture without --bootstrap; what was "
        "copied is kept."
    )


def _main() -> int:
    """Reads a question from standard input, and prints the answers or why there are none."""
    # Whatever a library prints must not be taken for an answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    question = json.load(sys.stdin)
    config = ClientConfig(
        librdkafka=question["config"]["librdkafka"],
        kafka_python=question["config"]["kafka_python"],
        only_librdkafka=tuple(question["config"]["only_librdkafka"]),
    )
    code = 0
    with answer:
        try:
            answer.write(to_json(CapturedAnswers(before=ask(question["bootstrap"], config), after=None)))
        except ClusterError as error:
            answer.write(str(error))
            code = _UNREACHABLE
    return code


if __name__ == "__main__":
    sys.exit(_main())
