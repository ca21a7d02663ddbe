"""``python -m scrtune.daemon`` is the same as ``scrtune``."""

from .cli import main

main()
