"""Rows, backgrounds and groups of every kind, as tensors to mix."""
