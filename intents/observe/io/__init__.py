"""What the job writes and reads: sizes of accesses and of outputs, flushes, files that meet, storage."""
