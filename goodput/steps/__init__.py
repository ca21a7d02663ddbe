"""Step times, deviations from the ideal, and stragglers."""
