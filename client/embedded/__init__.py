"""SCR's semantics on one machine, without libscr."""
