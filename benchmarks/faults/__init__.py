"""Faults against whole audits: what stands in the way of a real `tidegauge audit`, and what is right again afterwards.

    PYTHONPATH=. python -m benchmarks.faults --help

An attempt is told by its fault, a seed and a number. The modules, in the order in which an attempt comes about: `place`
(a home, a store and a temporary directory of its own, and what is left in them), `stored` (what a store holds),
`faults` (what is done to an audit), `attempt` (the fault, the same command again, and what must hold then), `table`
(what is told).
"""
