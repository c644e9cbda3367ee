"""`tidegauge` as a process of its own: what is set here holds for all of it, and for the processes that it starts.

What the command line imports takes a second. Ctrl-C in that second ends the command as it does later: nothing has
begun, and nobody wants to see which module was being read.
"""

import atexit
import gc
import importlib
import os
import signal
import sys


def run() -> None:
    """`tidegauge`."""
    _run("tidegauge.cli.main", "tidegauge")


def run_capture() -> None:
    """`tidegauge-capture`, of the package for brokers' machines."""
    _run("tidegauge.cli.capture_alone", "tidegauge-capture")


def _run(module: str, name: str) -> None:
    """Imports a command line and runs it."""
    try:
        main = importlib.import_module(module).main
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
        main(prog_name=name)
    finally:
        told_already()
