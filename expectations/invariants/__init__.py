"""The invariants: a folder each, named by code and name. What several of them say is in `shared`.

In: `model.Invariant`. Out: `registry.CATALOGUE`, which finds the folders by itself. The rule that must hold: data
without behaviour, standard library only.
"""
