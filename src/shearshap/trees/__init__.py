"""Exact Shapley values of tree ensembles: trees of all libraries as one `Forest`, its tables."""
