"""How a command ends: an exit code, and an error as one paragraph.

In: a command. Out: the same, with its errors turned into words. Exit code 1 is a result, never a mistake of ours.

    0   nothing at or above --fail-on
    1   breaches at or above it
    2   usage, an address of a store that is none, or a snapshot that cannot be used
    3   the environment: store, Spark, disk
    70  an error of our own
    130, 143, 129  Ctrl-C, SIGTERM, SIGHUP
    99  nothing to do (`job snapshot --unless-published`), which Airflow takes for skipped

Of several snapshots that are audited together, one that cannot be audited makes it 2, 3 or 70, whatever the others
breach, and they are published before that.
"""

import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any, Final

import click

from tidegauge import log
from tidegauge.progress import display_for, show
from tidegauge.runs.errors import AddressError, OwnError
from tidegauge.snapshots.errors import AuditError, SnapshotError
from tidegauge.terminal import paragraph, plain

EXIT_BREACHES: Final = 1
EXIT_UNUSABLE: Final = 2
EXIT_ENVIRONMENT: Final = 3
EXIT_OUR_FAULT: Final = 70
EXIT_NOTHING_NEW: Final = 99

NO_SUCH_PLACE: Final = frozenset({errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})
"""Refusals of the system that lie in a path itself, so that trying again does not help."""

_SOON_S: Final = 0.01

_REPORT: Final = "Please report it with the output of the same command after `tidegauge --debug`."


def told(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turns our errors into one paragraph and an exit code."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except AuditError as error:
            warning(_words(error))
            _traceback()
            sys.exit(_code(error))
        except BrokenPipeError:
            # Who read the output has left (`| head`): there is nobody to tell, and Python's own flush would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(EXIT_ENVIRONMENT)
        except OSError as error:
            where = f" at {error.filename}" if error.filename else ""
            if error.errno in NO_SUCH_PLACE:
                warning(
                    f"tidegauge: nothing can be{where}: {error.strerror or error}. Name another path, or see what "
                    "stands in its way."
                )
                _traceback()
                sys.exit(EXIT_UNUSABLE)
            warning(
                f"tidegauge: the system refused{where}: {error.strerror or error}. "
                "Check permissions and free space there, then run the same command again."
            )
            _traceback()
            sys.exit(EXIT_ENVIRONMENT)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)  # click's own answer is 1, which means breaches
        except click.exceptions.ClickException:
            raise
        except Exception as error:
            # Never 1: a breach is a result, this is a mistake of ours.
            warning(
                f"tidegauge: an error of its own ({type(error).__name__}: {error}). Nothing was published. {_REPORT}"
            )
            _traceback()
            sys.exit(EXIT_OUR_FAULT)

    return run


def ended(error: AuditError) -> click.exceptions.Exit:
    """Tells an error of ours that is met while arguments are read, where `told` does not see it; what to raise."""
    warning(_words(error))
    return click.exceptions.Exit(_code(error))


def _words(error: AuditError) -> str:
    if not isinstance(error, OwnError):
        return f"tidegauge: {error}"
    return f"tidegauge: an error of its own ({error}). {_REPORT}"


def _code(error: AuditError) -> int:
    if isinstance(error, OwnError):
        return EXIT_OUR_FAULT
    return EXIT_UNUSABLE if isinstance(error, SnapshotError | AddressError) else EXIT_ENVIRONMENT


def _traceback() -> None:
    if click.get_current_context().find_root().obj["debug"]:
        traceback.print_exc()


def ends_by_signal() -> None:
    """Lets SIGTERM and SIGHUP end the command as Ctrl-C does: what it started is stopped, what it began is cleared.

    A SIGHUP that was to be ignored (nohup) still is. Whoever sends a signal twice does not break off the clearing up.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # Another program runs the command within itself: its signals are its own.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _ended)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unraisable


def told_already() -> None:
    """A command that has its exit code clears up, which takes no longer than its waits allow: from here on a signal
    would end nothing sooner, and Python would show it as an exception among its callbacks.
    """
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) in (_ended, _interrupted):
            signal.signal(number, signal.SIG_IGN)


def _ended(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _interrupted(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _unraisable(met: "sys.UnraisableHookArgs") -> None:
    """What we raise at a signal is lost if it comes in a callback, such as a weak reference's: nobody catches there,
    and Python prints it and goes on. So the signal is sent once more, as soon as the callback is over.
    """
    if met.exc_type is KeyboardInterrupt:
        number, handler = signal.SIGINT, _interrupted
    elif isinstance(met.exc_value, SystemExit) and met.exc_value.code in (128 + signal.SIGTERM, 128 + signal.SIGHUP):
        number, handler = signal.Signals(met.exc_value.code - 128), _ended
    else:
        sys.__unraisablehook__(met)
        return
    if threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)
        again = threading.Timer(_SOON_S, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()


def warning(text: str) -> None:
    """A line on standard error, also for who wants quiet."""
    click.echo(log.line(paragraph(text), "error"), err=True)


def progress(text: str) -> None:
    """A line on standard error, unless somebody wants quiet: one line, whatever the names in it hold."""
    context = click.get_current_context(silent=True)
    if context is None or not (context.find_root().obj or {}).get("quiet"):
        click.echo(log.line(plain(text)), err=True)


def begin(command: str | None) -> None:
    """What each command stands on: how far it is is shown, and its lines say whose they are."""
    if (chosen := os.environ.get(log.FORMAT, "")) not in ("", *log.FORMATS):
        raise click.UsageError(f"{log.FORMAT} is {chosen!r}. It may be {' or '.join(log.FORMATS)}.")
    log.about_from_now(command=command)
    show(display_for())


def forget_at_the_end(context: click.Context) -> None:
    """Takes back what `begin` did: another command may follow in this process."""
    context.call_on_close(lambda: show(None))
    context.call_on_close(log.about_nothing)


class ToldCommand(click.Command):
    """A command of which usage errors are told as all others are, where logs are collected."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """See click."""
        with _collected():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """See click."""
        with _collected():
            return super().invoke(ctx)


class Told(ToldCommand, click.Group):
    """The same of a group."""


@contextmanager
def _collected() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # That is help, not an error.
    except click.ClickException as error:
        if not log.as_json():
            raise
        warning(f"tidegauge: {error.format_message()}")
        raise click.exceptions.Exit(error.exit_code) from error


def _be_quiet(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        context.find_root().obj["quiet"] = True
        show(None)


QUIET: Final = click.option(
    "--quiet", is_flag=True, expose_value=False, callback=_be_quiet,
    help="Nothing on standard error but errors and warnings.",
)  # fmt: skip
