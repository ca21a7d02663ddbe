"""Jobs: which one a command is about, what state it is in, what is known of it, what it left."""
