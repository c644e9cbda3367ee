"""The invariants: a folder each, named by code and name. What several of them say is in `shared`.

In: `model.Invariant`. Out: `registry.CATALOGUE`, which finds the folders by itself. Data without behaviour, standard
library only.
"""
