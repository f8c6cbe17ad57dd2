"""A Gaussian process over coalitions."""
