"""A process that may take only so much more memory than it has: what needs more fails there."""

import os
import resource
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

_MEGABYTE: Final = 1 << 20
_PAGES: Final = Path("/proc/self/statm")


def within(megabytes: int, work: Callable[[], object]) -> None:
    """Does the work in a child with that limit of addresses beyond what this process has now; fails as it fails.

    What is not compiled yet is compiled there, so work that compiles is done once before.
    """
    child = os.fork()
    if child == 0:
        failed = 1
        try:
            most = int(_PAGES.read_text().split()[0]) * resource.getpagesize() + megabytes * _MEGABYTE
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            work()
            failed = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(failed)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"not within {megabytes} MB, or wrong: see what it wrote"
