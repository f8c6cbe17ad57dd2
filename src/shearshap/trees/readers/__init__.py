"""Readers of the trees of other libraries."""
