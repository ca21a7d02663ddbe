"""Rules of the intents about what a checkpoint must survive, and which ones are kept."""
