"""The per-node service: one thread that takes events in, runs the pipeline and publishes decisions."""
