"""What commands show of a view, as blocks (`cli/blocks.py`) that the terminal and pages render alike."""
