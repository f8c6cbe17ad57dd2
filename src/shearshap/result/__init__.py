"""Results: explanations, what can be asked of them, and how they are shown and kept."""
