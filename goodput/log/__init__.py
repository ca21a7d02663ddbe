"""Logs of lines that several processes append to, and what writes them."""
