"""What is tried next, what stays, and what that may cost."""
