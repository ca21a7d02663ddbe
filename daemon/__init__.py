"""The per-node service and the command line."""
