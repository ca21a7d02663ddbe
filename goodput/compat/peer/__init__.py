"""The peer's arithmetic, its names and its logs."""
