"""Commands, each in its module or, as :mod:`..main` has it, beside those of its kind."""
