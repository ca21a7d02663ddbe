"""The checkpoint interval: cost models, failure rates, recommendation."""
