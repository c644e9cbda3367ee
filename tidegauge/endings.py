"""How a command ends: an exit code, and an error as one paragraph.

In: a command. Out: the same, with its errors turned into words. The rule that must hold: 1 is a result and never a
mistake of ours.

    0   nothing at or above --fail-on
    1   breaches at or above it
    2   usage, or a snapshot that cannot be used
    3   the environment: store, Spark, disk
    70  an error of our own
    99  nothing to do (`job snapshot --unless-published`), which Airflow takes for skipped
"""

import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import click

from snapshots.errors import AuditError, SnapshotError

EXIT_BREACHES: Final = 1
EXIT_UNUSABLE: Final = 2
EXIT_ENVIRONMENT: Final = 3
EXIT_OUR_FAULT: Final = 70
EXIT_NOTHING_NEW: Final = 99


def told(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turns our errors into one paragraph and an exit code."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except AuditError as error:
            click.echo(f"tidegauge: {error}", err=True)
            _traceback()
            sys.exit(EXIT_UNUSABLE if isinstance(error, SnapshotError) else EXIT_ENVIRONMENT)
        except BrokenPipeError:
            # Who read the output has left (`| head`): there is nobody to tell, and Python's own flush would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(EXIT_ENVIRONMENT)
        except OSError as error:
            where = f" at {error.filename}" if error.filename else ""
            click.echo(
                f"tidegauge: the system refused{where}: {error.strerror or error}. "
                "Check permissions and free space there, then run the same command again.",
                err=True,
            )
            _traceback()
            sys.exit(EXIT_ENVIRONMENT)
        except click.exceptions.ClickException:
            raise
        except Exception as error:
            # Never 1: a breach is a result, this is a mistake of ours.
            click.echo(
                f"tidegauge: an error of its own ({type(error).__name__}: {error}). Nothing was published. "
                "Please report it with the output of the same command after `tidegauge --debug`.",
                err=True,
            )
            _traceback()
            sys.exit(EXIT_OUR_FAULT)

    return run


def _traceback() -> None:
    if click.get_current_context().find_root().obj["debug"]:
        traceback.print_exc()


def progress(text: str) -> None:
    """A line on standard error."""
    click.echo(text, err=True)
