"""What checkpoints would cost under other settings, by the cost model fitted to runs of a study."""
