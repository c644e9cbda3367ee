"""Transactions, groups and share groups: coordinators as pure state machines."""
