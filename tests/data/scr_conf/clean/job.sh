#!/bin/bash
#SBATCH --nodes=4
# don't stop
export SCR_PREFIX=/parallel/fs/$USER/run1
export SCR_CACHE_BYPASS=0 \
       SCR_CACHE_SIZE=2
export SCR_FLUSH=20
export SCR_HALT_SECONDS=3600
export SCR_RUNS=3
export SCR_PKG=$(pwd) SCR_INSTALL=/opt/scr
if [ "$FAST" ]; then export SCR_FLUSH=1; else export SCR_FLUSH=10; fi
x=$((1<<EOF))
scr_srun -n 32 ./app
