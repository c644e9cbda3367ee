"""Transactions, groups and share groups: coordinators as pure state machines, and how brokers host them."""
