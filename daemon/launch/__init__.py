"""Start a job with its daemon beside it: on one machine and in a Slurm allocation."""
