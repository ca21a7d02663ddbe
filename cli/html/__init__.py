"""Views as figures and as one HTML page. Never imports `cli.terminal`."""
