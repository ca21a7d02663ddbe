"""What a checkpoint must survive, and which ones are kept."""
