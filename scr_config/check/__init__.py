"""Check SCR's config files, job scripts and environments."""
