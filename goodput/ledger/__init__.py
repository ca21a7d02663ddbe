"""Where every second of a job went: claims, swept by priority and summed."""
