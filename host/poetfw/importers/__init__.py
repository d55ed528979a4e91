"""Models and data sets from files."""
