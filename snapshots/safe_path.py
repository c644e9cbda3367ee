"""Where Python looks for modules: never in the directory that a process stands in.

In: nothing. Out: `SAFE_PATH`, what every process is started with. `python -m` and `python -c` look in the current
directory first, and that may be a copy that somebody else made: a `socket.py` in it would run as who audits it.
"""

from typing import Final

SAFE_PATH: Final = {"PYTHONSAFEPATH": "1"}
"""Environment variables of every Python that is started here, by Spark too (Python 3.11, sys.flags.safe_path)."""
