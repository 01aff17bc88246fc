"""Chess puzzles as a domain: find the one move, or the whole line, that solves the position."""
