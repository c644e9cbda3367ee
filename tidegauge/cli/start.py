"""`tidegauge` as a process of its own: what is set here holds for all of it, and for the processes that it starts.

What the command line imports takes a second. Ctrl-C in that second ends the command as it does later: nothing has
begun, and nobody wants to see which module was being read.
"""

import atexit
import gc
import os
import signal
import sys


def run() -> None:
    """Imports the command line and runs it."""
    try:
        from tidegauge.cli.main import main
        from tidegauge.endings import ends_by_signal, told_already
        from tidegauge.snapshots.safe_path import SAFE_PATH, only_absolute
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    os.environ.update(SAFE_PATH)
    os.environ["PATH"] = only_absolute(os.environ.get("PATH", os.defpath))
    os.umask(os.umask(0o027) | 0o027)  # Reports tell of users' topics and groups: nobody else need read them.
    ends_by_signal()
    atexit.register(gc.freeze)  # Python would look for garbage once more, a second among all that was imported.
    try:
        main(prog_name="tidegauge")
    finally:
        told_already()
