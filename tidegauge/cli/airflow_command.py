"""`tidegauge airflow`: Airflow's own command line, on the Airflow that `tidegauge up` runs."""

import sys

import click

from tidegauge.endings import told


@click.command("airflow", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@told
def airflow_command(words: tuple[str, ...]) -> None:
    """Run a COMMAND of Airflow's own, such as `backfill create` or `dags list`, on the Airflow of `tidegauge up`.

    It sees the same metadata, DAGs and settings; what it creates is run by the scheduler of `tidegauge up`, which has
    to run for that. It ends with Airflow's own exit code.
    """
    from tidegauge.cli.demo import run_airflow

    sys.exit(run_airflow(words))
