"""Worlds that chance makes: sizes, traffic, lawful events, faults, and what an audit of them should find.

In: a seed, kinds of faults, hours. Out: copies of a cluster, each with its truth and its expected findings. The rule
that must hold: the same three give the same bytes, in one process or another.
"""
