"""What the storage of this node can do, measured once a job."""
