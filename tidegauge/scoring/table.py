"""The score as Markdown.

In: a `Score`. Out: tables, lines of text. A row for each invariant that had something to catch or cried wolf, one line
for all others; nothing is rounded in our favour.
"""

from collections.abc import Iterator, Sequence

from tidegauge.scoring.score import Score


def tables(score: Score) -> Iterator[str]:
    """All of it: in a few words, by invariant, by kind of fault, what cannot be seen."""
    yield from summary(score)
    yield ""
    yield from by_invariant(score)
    if score.faults:
        yield ""
        yield from by_fault(score)
    if score.impossible:
        yield ""
        yield "Not to be seen in the files, whoever looks:"
        yield ""
        yield from impossible(score)


def summary(score: Score) -> Iterator[str]:
    """The bars."""
    told = score.losses - score.losses_unseen
    yield (
        f"{score.worlds:,} random worlds with faults, {score.fault_free_worlds:,} without, and {score.scenarios} "
        f"scenarios: {score.snapshots:,} snapshots, {score.live_copies:,} of them live copies; ruleset "
        f"{score.ruleset_version}."
    )
    yield ""
    yield f"- In worlds without faults: {score.fault_free_alarms:,} breaches."
    yield (
        f"- Findings that a fault must give: {sum(i.should_catch for i in score.invariants):,}, of them missed: "
        f"{sum(i.missed for i in score.invariants):,}."
    )
    yield f"- Alarms that nothing explains: {sum(i.false_alarms for i in score.invariants):,}."
    yield f"- Lost ranges: {told:,}, told to the offset: {score.losses_exact:,}."


def by_invariant(score: Score) -> Iterator[str]:
    """A row for each invariant that had something to say."""
    rows = [i for i in score.invariants if i.should_catch or i.false_alarms]
    yield from _table(
        ("invariant", "should catch", "caught", "missed", "false alarms"),
        [
            (f"{i.code} {i.name}", f"{i.should_catch:,}", f"{i.caught:,}", f"{i.missed:,}", f"{i.false_alarms:,}")
            for i in rows
        ],
    )
    silent = len(score.invariants) - len(rows)
    if silent:
        yield ""
        yield f"The other {silent} invariants had nothing to catch, and raised no alarm."


def by_fault(score: Score) -> Iterator[str]:
    """A row for each kind of fault, as each snapshot shows it."""
    yield from _table(
        ("fault", "injected", "caught", "missed", "without a trace"),
        [(f.kind, f"{f.injected:,}", f"{f.caught:,}", f"{f.missed:,}", f"{f.unseen:,}") for f in score.faults],
    )


def impossible(score: Score) -> Iterator[str]:
    """What nobody could see, with the reason."""
    yield from _table(
        ("what", "why no file tells of it", "times"), [(i.what, i.reason, f"{i.times:,}") for i in score.impossible]
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
