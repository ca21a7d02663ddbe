"""Commands about what is set, and what can be: SCR's configuration, and scrtune's own defaults."""
