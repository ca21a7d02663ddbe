"""One module per command of `scrtune`."""
