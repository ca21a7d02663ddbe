"""The command line: what a person types and reads. Stands above all other rooms."""
