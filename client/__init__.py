"""The application's side: emit events, follow traces, ask for advice, take checkpoints."""
