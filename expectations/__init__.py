"""What must hold: the catalogue of invariants, and all that is rendered from it.

In: the names of the fact relations' columns. Out: SQL that counts and finds breaches, arguments that explain them, what
Great Expectations judges with, and pages. One invariant is written down once, in its folder below `invariants`.
"""
