"""Where the time of a job went. Pure: no I/O, no clock."""
