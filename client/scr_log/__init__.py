"""What SCR says of itself: its log, its debug lines, and the events of the preloaded library."""
