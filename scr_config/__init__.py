"""SCR's own files: know, read, check and write them."""
