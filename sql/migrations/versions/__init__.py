"""Revisions of the store, oldest first; each runs the SQL files beside it."""
