"""The built-in models and their data."""
