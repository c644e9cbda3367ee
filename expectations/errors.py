"""What can go wrong on our side when invariants are evaluated."""


class EvaluationError(Exception):
    """A predicate could not be evaluated, or two evaluations of it disagree: there is no verdict. Never retried.

    One paragraph that says what, where, and what to do; carries one text, so it comes through pickle as it was raised.
    """
