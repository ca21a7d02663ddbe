"""What commands show, as values: the one source of numbers for tables, JSON, CSV and HTML."""
