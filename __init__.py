"""scrtune: tunes checkpointing with SCR (Scalable Checkpoint/Restart) while the job runs.

The repository root is this package. Its rooms, from top to bottom; a room imports only rooms below it:

    cli         what a person types and reads: commands, views, text, html
    replay      recorded traces
    daemon      the per-node service: loop, launch, monitor
    client      the application's side: session, engines, recorder, capture
    scr_config  SCR's own files and parameters
    intents     what the I/O means and what to do about it        (pure)
    goodput     where the time of a job went                      (pure, but for log/ and compat/)

`native/` is libscrtune.so (C), which changes the settings of a real libscr while the job runs.
"""

__version__ = "0.1.0"
