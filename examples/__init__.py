"""Applications to try scrtune with. In the wheel too: `scrtune demo` runs one of them."""
