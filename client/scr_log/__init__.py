"""SCR's own reports: its log, its debug lines, and the events of the preloaded library."""
