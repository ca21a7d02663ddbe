"""What passes between an application's node and its daemon."""
