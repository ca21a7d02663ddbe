"""Goodput of a running job for others to watch: OpenMetrics, TensorBoard, CSV."""
