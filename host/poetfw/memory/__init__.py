"""Fixed addresses for every buffer."""
