"""What the tests of the embedded Postgres share, and which of them only root can run."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Root alone can ask as somebody else, and has a server that runs as somebody else.
collect_ignore = [] if os.geteuid() == 0 else ["test_embedded_postgres_of_root.py"]


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that is closed to everybody else, in one that is not; what root's servers keep lies there, too."""
    outer = Path(tempfile.mkdtemp(prefix="tidegauge-own-"))
    outer.chmod(0o755)
    monkeypatch.setenv("TIDEGAUGE_ROOT_POSTGRES", str(outer / "state"))
    inner = outer / "private"
    inner.mkdir(mode=0o700)
    yield inner
    shutil.rmtree(outer)
