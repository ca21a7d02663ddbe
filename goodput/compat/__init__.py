"""ml-goodput-measurement's public API over a local log: code that was written for it changes an import.

    from ml_goodput_measurement import goodput, monitoring            # before
    from scrtune.goodput.compat import goodput, monitoring            # after

    from ml_goodput_measurement.src.goodput import GoodputRecorder    # before
    from scrtune.goodput.compat.goodput import GoodputRecorder        # after

Same modules, classes, signatures, return shapes and numbers as version 0.2.3 ("the peer"), without a cloud,
an account or a network; `docs/goodput-compat.md` has the rules, the faults that are kept and what differs.
The numbers are those of the policy ``compat``; the same log under ``conserving`` (``scrtune goodput``) has
buckets that add up.

The peer's modules: `goodput`, `goodput_elastic`, `goodput_utils`, `monitoring`, `monitoring_elastic`; Orbax's
logger: `orbax`. Behind them: `store` (logs), `job` (a log as far as it was read), `rules` and `columns` (the
arithmetic), `peer_names` (the recorder's methods), `differences` (from the policy ``conserving``).
"""
