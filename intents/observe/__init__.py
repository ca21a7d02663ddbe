"""The intents of the study: what a job's I/O needs, with the evidence for it."""
