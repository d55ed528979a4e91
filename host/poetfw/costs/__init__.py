"""What every op costs on a board, in seconds and joules."""
