"""`tidegauge-capture`: the command `capture` as a program of its own, of the package for brokers' machines.

In: the options of `tidegauge capture`. Out: the same. The rule that must hold: nothing that this imports needs numba,
Spark, Great Expectations or a database (`tools/capture_package`).
"""

from typing import Any

import click

from tidegauge import __version__
from tidegauge.cli.capture_command import capture_command
from tidegauge.endings import ToldCommand, begin, forget_at_the_end


class _Alone(ToldCommand):
    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """With what the group `tidegauge` gives its commands."""
        begin("capture")
        context = super().make_context(info_name, args, parent, **{"obj": {"debug": "--debug" in args}, **extra})
        forget_at_the_end(context)
        return context


main = _Alone(
    "tidegauge-capture",
    callback=capture_command.callback,
    params=[
        *capture_command.params,
        click.Option(["--debug"], is_flag=True, expose_value=False, help="Show a traceback with an error."),
    ],
    help=capture_command.help,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
click.version_option(__version__, prog_name="tidegauge-capture")(main)
