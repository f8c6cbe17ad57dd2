"""Exact Shapley values of tree ensembles: trees of every library as one `Forest`, and its tables."""
