"""Schedulers that poetfw's own is measured against, and starts from."""
