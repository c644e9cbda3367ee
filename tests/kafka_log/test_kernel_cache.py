"""Where compiled kernels go when nothing that they usually go to can be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegauge.kafka_log.kernel_cache import kernel_cache_dir

ROOT = Path(__file__).parents[2]
NOWHERE = Path("/proc/self")
"""Nobody can make a file here, root neither."""


def found(temporary: Path, *, package: Path = NOWHERE, user_cache: Path = NOWHERE) -> Path | None:
    return kernel_cache_dir(package=package, user_cache=user_cache, temporary=temporary, user_id=os.getuid())


def test_numba_finds_its_own_place_where_there_is_one(tmp_path: Path) -> None:
    assert found(tmp_path, package=tmp_path / "package") is None
    assert found(tmp_path, user_cache=tmp_path / "home" / ".cache" / "numba") is None
    assert list(tmp_path.iterdir()) == []


def test_else_a_directory_of_the_users_own_which_is_found_again(tmp_path: Path) -> None:
    own = found(tmp_path)
    assert own is not None
    assert own.parent == tmp_path
    assert own.stat().st_mode & 0o777 == 0o700
    assert found(tmp_path) == own


@pytest.mark.parametrize("trap", ["open", "link"])
def test_a_directory_that_others_could_have_filled_is_not_used(tmp_path: Path, trap: str) -> None:
    own = tmp_path / f"tidegauge-kernels-{os.getuid()}"
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    if trap == "open":
        own.mkdir()
        own.chmod(0o777)
    else:
        own.symlink_to(other)
    used = found(tmp_path)
    assert used is not None
    assert used not in (own, other)
    assert used.stat().st_mode & 0o777 == 0o700


def test_kernels_compile_where_only_the_temporary_directory_can_be_written(tmp_path: Path) -> None:
    script = (
        "import tidegauge.kafka_log.kernel_cache as cache; from pathlib import Path;"
        "cache.__file__ = '/proc/self/x.py';"
        "cache.use_kernel_cache(); import numba; print(numba.config.CACHE_DIR)"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": "/proc/self", "TMPDIR": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / f"tidegauge-kernels-{os.getuid()}")


@pytest.mark.parametrize(
    "first", ["tidegauge.kafka_log.scan_kernel", "numba", "tidegauge.facts.segments.batch_digests"]
)
def test_no_settings_of_numbas_are_taken_from_where_the_process_stands(tmp_path: Path, first: str) -> None:
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: planted\ndisable_jit: 1\n")
    script = (
        f"import {first}, tidegauge.kafka_log.scan_kernel, numba;"
        "from numba.core.config import reload_config; reload_config();"
        "print(repr(numba.config.CACHE_DIR), numba.config.DISABLE_JIT)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.strip()) == (0, "'' 0"), done.stderr
