"""The belief: what each joint setting costs, by all that was measured (`docs/tuning.md`)."""
