"""ml-goodput-measurement's public API over a local log: code that was written for it changes an import.

Same modules, classes, signatures, return shapes and numbers as version 0.2.3 ("the peer"), without a cloud,
an account or a network; `docs/goodput-compat.md` has the rules, the faults that are kept and what differs.
"""
