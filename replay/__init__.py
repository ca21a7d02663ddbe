"""Recorded traces: read them, run them through the pipeline."""
