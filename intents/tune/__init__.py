"""Goodput feedback: what a change really did decides whether it stays."""
