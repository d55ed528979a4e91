"""The command line: thin commands, no logic."""
