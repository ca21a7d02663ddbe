"""One module per command; `interval` and `report` are parts of `goodput`, `switch` is `on` and `off`."""
