"""Great Expectations, as the pipeline uses it and as its users know it.

In: invariants, and a store in which their relations are staged. Out: for each run and invariant how many rows breach
it, and a project that the library opens by itself. The rules that must hold: an expectation that could not be evaluated
is never success, and what is kept in files needs no code of ours to be judged.

Importing the library takes seconds, so it is imported by the modules in here and by no other, and these are imported
where they are used. What both sides share, `expectations.agreement`, needs none of it.
"""
