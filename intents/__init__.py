"""The meaning of a job's I/O, and the settings that follow from it. Pure: no I/O, no clock."""
