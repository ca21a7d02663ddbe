"""Simulated jobs under a tuner, measured against the best settings that the user's rails allow."""
