#!/bin/bash
#SBATCH -N 1
#SBATCH -t 60
export SCR_CACHE_BYPASS=0
# expect: single-node
export SCR_COPY_TYPE=PARTNER
# expect: bad-value
export SCR_FLUSH="ten" SCR_PREFIX=$PWD/run
# expect: inert
export SCR_FLUSH_WIDTH=16
# expect: not-exported
SCR_HALT_SECONDS=600
# expect: unknown-name
export SCR_FLUSH_ASNYC=1
# expect: descriptor-in-environment
export STORE=/ssd/$USER
SCR_DEBUG=1
export SCR_DEBUG
cat > unread.conf <<EOF
SCR_FLUSH=nothing of this is the script's
EOF
# expect: bad-value
SCR_RUNS=a-few scr_srun ./app
