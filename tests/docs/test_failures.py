"""What the guide to failures quotes is what the code says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "failures.md").read_text(encoding="utf-8")
ROOMS = ("audit", "runs", "snapshots", "spark_jobs", "store", "tidegauge")
QUOTED = [
    words
    for line in GUIDE.split("## By what it says")[1].split("##")[0].splitlines()
    if line.startswith("| `")
    for words in re.findall(r"`([^`]+)`", line.split("|")[1])
]


@pytest.fixture(scope="module")
def said() -> str:
    """All that the code says, without where its lines break and what is put in."""
    source = "\n".join(path.read_text(encoding="utf-8") for room in ROOMS for path in (ROOT / room).glob("**/*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", source)
    return re.sub(r"\{[^{}]*\}", "…", joined)


def test_there_are_quotations() -> None:
    assert len(QUOTED) > 10


@pytest.mark.parametrize("words", QUOTED)
def test_a_message_is_quoted_as_it_is(said: str, words: str) -> None:
    parts = [part.strip() for part in words.split("…") if part.strip()]
    pattern = ".{0,200}?".join(re.escape(part) for part in parts)
    assert re.search(pattern, said), f"nothing says {words!r}"
