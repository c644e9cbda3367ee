"""The golden captures by name: `tests/golden/README.md` says what happened to each."""

CAPTURES = [
    "healthy",
    "epochs",
    "unclean-before",
    "hanging-txn",
    "pair-clean-b1",
    "pair-clean-b2",
    "soak-01",
    "tiered",
    "kafka-4.1",
    "kafka-3.9",
]
