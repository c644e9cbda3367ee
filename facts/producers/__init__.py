"""The producers of one log, replayed: sequences, transactions, and what a producer snapshot must hold of them."""
