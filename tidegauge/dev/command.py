"""The commands `tidegauge dev …`: their arguments, and what they print.

In: arguments. Out: files of the checkout, and what to do with them. What is refused is refused before anything is
written.
"""

import click

from tidegauge.endings import told


@click.group("dev")
def dev_group() -> None:
    """For work on Tidegauge itself, in a checkout of its repository."""


@dev_group.command("new-invariant")
@click.argument("code")
@click.argument("name")
@click.option("--relation", required=True, help="The relation that it judges, row by row: see the reference.")
@told
def new_invariant_command(code: str, name: str, relation: str) -> None:
    """Write the folder of a new invariant, to be filled in: CODE as in D20, NAME as in CommittedOnEnoughDisks.

    Its tests fail, and say where, until nothing of the skeleton is left.
    """
    from tidegauge.dev import new_invariant

    try:
        written = new_invariant.write(code, name, relation)
    except new_invariant.SkeletonError as refused:
        raise click.UsageError(str(refused)) from refused
    for path in written:
        click.echo(str(path))
    click.echo(
        f"Fill in what says {new_invariant.FILL_IN}, then: python -m pytest tests/expectations "
        f"tests/derivation/test_every_code_alone.py -k {code}"
    )
