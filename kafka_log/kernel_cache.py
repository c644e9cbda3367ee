"""Where compiled kernels are kept if neither the installation nor the user's cache directory can be written.

In: the machine as it is. Out: a directory for `NUMBA_CACHE_DIR`, or None where numba finds a place by itself. The rule
that must hold: compiled code is loaded from no directory that somebody else could have filled.

A container with a read-only root and a user without a home is how a sidecar runs; numba refuses to compile there.
"""

import importlib.machinery
import importlib.util
import os
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

_VARIABLE = "NUMBA_CACHE_DIR"
_CONFIG_MODULE = "numba.core.config"
_CONFIG_FILE = ".numba_config.yaml"


def kernel_cache_dir(*, package: Path, user_cache: Path, temporary: Path, user_id: int) -> Path | None:
    """A directory of this user's own below `temporary`; None if `package` or `user_cache` can be written."""
    if _writable(package / "__pycache__") or _writable(user_cache):
        return None
    own = temporary / f"tidegauge-kernels-{user_id}"
    own.mkdir(mode=0o700, exist_ok=True)
    found = own.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user_id and not found.st_mode & 0o077
    return own if ours else Path(tempfile.mkdtemp(prefix="tidegauge-kernels-", dir=temporary))


class _NoConfigFile(importlib.machinery.SourceFileLoader):
    """Loads numba's settings without the file that numba looks for in the directory that the process stands in."""

    def get_code(self, fullname: str) -> CodeType | None:
        """The module's code, with a name in it that is no file's."""
        code = super().get_code(fullname)
        if code is None:
            return None
        return code.replace(co_consts=tuple(os.devnull if each == _CONFIG_FILE else each for each in code.co_consts))


class _Finder:
    """Lets `_NoConfigFile` load that module, whoever imports it first; leaves all others alone."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """How the module is loaded; None for any other."""
        if name != _CONFIG_MODULE:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is None or found.origin is None:
            return found
        return importlib.util.spec_from_file_location(name, found.origin, loader=_NoConfigFile(name, found.origin))


def ignore_numbas_config_file() -> None:
    """A `.numba_config.yaml` in the current directory may name a cache of compiled code, which numba would unpickle:
    whoever made a copy of a cluster could run code where it is audited.
    """
    loaded = sys.modules.get(_CONFIG_MODULE)
    if loaded is None:
        sys.meta_path.insert(0, _Finder)
        return
    loaded._config_fname = os.devnull  # type: ignore[attr-defined]
    loaded.reload_config()


def use_kernel_cache() -> None:
    """Tells numba, before anything of ours is compiled."""
    if os.environ.get(_VARIABLE):
        return
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    found = kernel_cache_dir(
        package=Path(__file__).parent,
        user_cache=Path(home) / "numba",
        temporary=Path(tempfile.gettempdir()),
        user_id=os.getuid(),
    )
    if found is None:
        return
    os.environ[_VARIABLE] = str(found)
    numba = sys.modules.get("numba")
    if numba is not None:
        numba.config.CACHE_DIR = str(found)


def _writable(directory: Path) -> bool:
    """Whether files can be made there, the nearest directory that exists deciding."""
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    return os.access(directory, os.W_OK | os.X_OK)
