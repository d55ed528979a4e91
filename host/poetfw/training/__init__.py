"""From a model to its training graph."""
