"""The plain expectation: what any process that has Great Expectations can judge, without a module of ours.

In: an invariant. Out: an expectation of the library's own type `unexpected_rows_expectation`: SQL that returns the rows
that breach it, and fails if there is one.

A success says that no row breaches the invariant. It does not say that every row could be judged: that is what the
audit's verdicts are for.
"""

from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation
from great_expectations.expectations.metadata_types import FailureSeverity

from tidegauge.expectations.gx.query_text import as_template
from tidegauge.expectations.model import Invariant
from tidegauge.expectations.states import breached_condition
from tidegauge.expectations.verdicts import derived_columns, subject_columns


def plain_expectation(invariant: Invariant) -> UnexpectedRowsExpectation:
    """The expectation that no row breaches `invariant`; a row that does names its subject and quotes the evidence."""
    derived = derived_columns(invariant)
    names = dict.fromkeys(("cluster", "snapshot_id", *subject_columns(invariant), *invariant.evidence))
    quoted = ", ".join(f'{derived[name]} AS "{name}"' if name in derived else f'"{name}"' for name in names)
    return UnexpectedRowsExpectation(
        unexpected_rows_query=(
            f"SELECT {as_template(quoted)} FROM {{batch}} WHERE {as_template(breached_condition(invariant))}"
        ),
        description=f"{invariant.code} {invariant.name}: {invariant.statement}",
        severity=FailureSeverity(invariant.severity.value),
        notes=[invariant.because],
        meta={"code": invariant.code, "name": invariant.name, "reference": invariant.reference},
    )
