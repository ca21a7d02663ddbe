"""What a job's I/O means and what to do about it. Pure: no I/O, no clock."""
