"""Stages between a reader and a writer: pure functions from items to items."""
