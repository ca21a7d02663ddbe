"""Views as text for a terminal, one module per command; `tables` has what they share."""
