"""A real libscr: find it, bind to it, change its settings while the job runs."""
