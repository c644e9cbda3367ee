"""Where nothing can be installed, a sentence says so before anything is tried."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tools.platforms import refusal

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("system", "machine", "libc"),
    [("Linux", "x86_64", ("glibc", "2.36")), ("Linux", "aarch64", ("glibc", "2.28")), ("Darwin", "arm64", ("", ""))],
)
def test_where_there_are_wheels_nothing_is_said(system: str, machine: str, libc: tuple[str, str]) -> None:
    assert refusal(system, machine, libc) is None


@pytest.mark.parametrize(
    ("system", "machine", "libc", "word"),
    [
        ("Linux", "x86_64", ("", ""), "Alpine has musl"),
        ("Linux", "x86_64", ("glibc", "2.17"), "this machine has 2.17"),
        ("Linux", "riscv64", ("glibc", "2.41"), "riscv64"),
        ("Darwin", "x86_64", ("", ""), "Intel"),
        ("Windows", "AMD64", ("", ""), "this is Windows"),
    ],
)
def test_where_there_are_none_a_sentence_says_why(system: str, machine: str, libc: tuple[str, str], word: str) -> None:
    assert word in (refusal(system, machine, libc) or "")


def test_this_machine_is_one_of_them_and_make_asks_first() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "platforms.py"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert refusal(platform.system(), platform.machine(), platform.libc_ver()) is None
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert recipe.index("tools/platforms.py") < recipe.index("-m venv $(VENV)")
