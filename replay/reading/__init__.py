"""From files of traces to tables: archives, damaged files, the scanner, what is remembered."""
