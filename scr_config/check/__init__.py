"""What is wrong with SCR's config files, job scripts and environments."""
