"""How strongly players act together."""
