"""The runs of a job, and the intervals that its writers reported."""
