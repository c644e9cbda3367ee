"""The tutorial, typed as it stands: every command ends as it says, every line that it shows is printed."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.docs.shell import ROOT, blocks, without_totals

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres]

PATIENCE_S = 240
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
SCRIPTS = blocks(TEXT, "sh")
SERVED = [script for script in SCRIPTS if script.startswith("tidegauge console")]
ADDRESS = re.compile(r"<http://127\.0\.0\.1:8137(/[^>]*)>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What all commands printed, those that did not end with 0, and where they ran."""

    printed: str
    failed: list[str]
    directory: Path
    environ: dict[str, str]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    checkout = tmp_path_factory.mktemp("checkout")
    (checkout / "tests").symlink_to(ROOT / "tests")
    bin_directory = checkout / ".venv" / "bin"
    bin_directory.mkdir(parents=True)
    (bin_directory / "tidegauge").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidegauge "$@"\n')
    (bin_directory / "tidegauge").chmod(0o755)
    script = "\n".join(s for s in SCRIPTS if s not in SERVED)
    noted = checkout / "failed"
    noted.touch()
    # The path of a directory for state is short: sockets have no long names.
    with tempfile.TemporaryDirectory(prefix="tidegauge-tutorial-") as home:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TIDEGAUGE_")}
        environ = {**kept, "TIDEGAUGE_HOME": home, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            ["bash", "-c", f"trap 'echo \"$? $BASH_COMMAND\" >> {noted}' ERR\n{script}"],
            cwd=checkout, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=1200,
        )  # fmt: skip
        environ["PATH"] = f"{bin_directory}:{environ['PATH']}"
        failed = noted.read_text(encoding="utf-8").splitlines()
        yield Typed(printed=done.stdout + done.stderr, failed=failed, directory=checkout / "incident", environ=environ)


def test_every_command_ends_as_it_says(typed: Typed) -> None:
    assert typed.failed == ["1 tidegauge audit unclean-before --out verdict"], typed.printed


def test_what_it_shows_is_what_was_printed(typed: Typed) -> None:
    printed = set(without_totals(typed.printed).splitlines())
    shown = [line for block in blocks(TEXT, "text") for line in without_totals(block).splitlines()]
    assert len(shown) > 30
    assert [line for line in shown if line not in printed] == []


def test_the_console_answers_at_the_addresses_that_it_names(typed: Typed) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (command,) = SERVED
    served = subprocess.Popen(
        [*command.split(), "--port", str(port)], cwd=typed.directory, env=typed.environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
            assert ready(client, served)
            addresses = ADDRESS.findall(TEXT)
            assert len(addresses) == 3
            assert {path: client.get(path).status_code for path in addresses} == dict.fromkeys(addresses, 200)
            assert "unclean-before" in client.get("/data-docs").text
    finally:
        served.send_signal(signal.SIGINT)
        output = served.communicate(timeout=300)[0]
    assert "Traceback" not in output


def ready(client: httpx.Client, served: subprocess.Popen[str]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and served.poll() is None:
        try:
            return client.get("/readyz").status_code == 200
        except httpx.ConnectError:
            time.sleep(0.2)
    return False
