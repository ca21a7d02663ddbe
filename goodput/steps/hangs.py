"""What a step is held against to see whether it hangs; apart from the arithmetic, which loads numpy."""

HUNG = 10
"""A step that lasts more than ten times as long as its neighbours hangs."""
AROUND = 4
"""With so many steps on either side a step is compared."""
