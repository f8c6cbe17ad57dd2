"""Spend a budget of model evaluations on rows, block by block."""
