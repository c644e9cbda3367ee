"""The `tidegauge` command for tests that attack it: as a process of its own, as at a shell, or in this one."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner, Result

from tidegauge.cli.main import main

SECONDS: Final = 300
_COMMAND: Final = Path(sys.executable).with_name("tidegauge")


def started(*arguments: object, home: Path, **options: Any) -> subprocess.Popen[str]:
    """The command, begun. Its state lies below `home`; `options` are those of `Popen`."""
    environ = {**os.environ, "TIDEGAUGE_HOME": str(home), "TIDEGAUGE_STORE_URL": ""}
    return subprocess.Popen([_COMMAND, *map(str, arguments)], text=True, env=environ, **options)


def tidegauge(*arguments: object, home: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command, ended: its exit code and what it said. Fails if it takes longer than `SECONDS`."""
    with started(*arguments, home=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            said, warned = process.communicate(timeout=SECONDS)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, said, warned)


def here(*arguments: object) -> Result:
    """The command in this process."""
    return CliRunner().invoke(main, [str(word) for word in arguments])


def refused(done: Result) -> None:
    """It was told that its arguments cannot be used, and not by an error of its own."""
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)
    assert "an error of its own" not in done.output
