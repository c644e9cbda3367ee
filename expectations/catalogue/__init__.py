"""The invariants: one named object each, grouped by what they are about.

In: nothing. Out: `registry.CATALOGUE`. The rule that must hold: data without behaviour, standard library only.
"""
