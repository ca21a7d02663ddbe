"""From intents to parameters: rules with sources, and guard rails."""
