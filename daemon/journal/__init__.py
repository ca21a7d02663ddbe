"""The journal of events on disk: its records, batches of them, and a snapshot of what they amount to."""
