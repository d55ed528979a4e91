"""Tables and pictures of what was planned."""
