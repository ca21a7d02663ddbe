"""Logs of other systems, and our own, as goodput events."""
