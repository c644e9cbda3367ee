"""Hostile bytes for every reader, from a seed: each decoder, the manifest, whole derives and whole audits.

    PYTHONPATH=. python -m benchmarks.fuzz --help

An input is told by its kind, a seed and a number, so that any of them can be made again. The modules, in the order in
which an input comes about: `corpus` (real brokers' files), `mutate` and `formats` (what is done to them), `decoders`
and `snapshots` (who reads them, and what must hold then), `run` (processes that may die), `table` (what is told).
"""
