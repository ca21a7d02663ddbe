"""The daemons of a job as one: who is there, who leads, what the others tell the leader."""
