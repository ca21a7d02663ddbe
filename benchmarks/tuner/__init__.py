"""Simulated jobs under a tuner, measured against the best settings that their users' rails allow.

`truth.py` has the cost of a checkpoint, `machine.py` the job in time, `jobs.py` the scenarios, `rails.py`
what is forbidden, `oracle.py` the best of the rest, `drive.py` a job that a tuner advises, `baselines.py`
other tuners.

How to read the table: *x oracle* is the seconds that checkpoints, re-inits and disturbed steps took from the
job, over those under the best settings from the start and the same noise; no tuner that looks first reaches
1 where *own / oracle* is high. *Harm* is the share of jobs that took 2 % more than under the user's own
settings; *p99* is of the same ratio. *Within 5 %* compares long-run costs without noise. *Trials* are
settings that were active for the first time. *Levers left* is the share of jobs at whose end a change of one
lever alone would save 5 %. *Out of rails* counts checkpoints, and must be 0. SCR_Finalize is not simulated,
nor are failures: the rails hold down what is at risk, and its expected rework is in no cost.
"""
