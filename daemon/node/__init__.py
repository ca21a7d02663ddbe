"""The node and its surroundings: its CPUs and processes, its storage, and the allocation."""
