"""Boards as data: the typed loader of `boards/*.toml`."""
