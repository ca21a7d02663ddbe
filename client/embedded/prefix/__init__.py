"""Checkpoints on their way to the prefix directory, and its index of them."""
