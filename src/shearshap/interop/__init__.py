"""Explanations for other libraries, and our methods inside them."""
