"""``python -m scrtune`` is the same as ``scrtune``."""

from .cli.main import main

if __name__ == "__main__":
    main()
