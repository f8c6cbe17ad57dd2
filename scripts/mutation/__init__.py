"""What scripts/mutants.py consists of."""
