"""Where Python looks for modules, and everybody for programs: never in the directory that a process stands in.

In: nothing, or a PATH. Out: `SAFE_PATH`, what every process is started with, and the PATH without such places. `python
-m` and `python -c` look in the current directory first, and that may be a copy that somebody else made: a `socket.py`
in it would run as who audits it. So would a `java` where the PATH has an empty entry or a relative one.
"""

import os
from typing import Final

SAFE_PATH: Final = {"PYTHONSAFEPATH": "1"}
"""Environment variables of every Python that is started here, by Spark too (Python 3.11, sys.flags.safe_path)."""


def only_absolute(path: str) -> str:
    """A PATH without the entries that lead from the current directory: an empty one is that directory itself."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry)) or os.defpath
