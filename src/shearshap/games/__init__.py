"""Games: what a coalition of players is worth."""
