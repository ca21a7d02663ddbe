"""Views as text for a terminal: tables and sentences, made with rich."""
