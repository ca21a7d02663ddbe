"""Write the recorded checkpoints of a run again on this machine, under settings of one's own.

The traces give the plan (:mod:`.recorded`, :mod:`.plan`), ranks of MPI carry it out with the embedded
engine or a real libscr (:mod:`.rank`) and record it as DFTracer would: what comes out of :mod:`.run` is a
run of a study like others.
"""
