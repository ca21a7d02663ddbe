#!/bin/csh
setenv SCR_CACHE_BYPASS 0
# expect: bad-value
setenv SCR_FILE_BUF_SIZE 0 # never ends
# expect: bad-value
setenv SCR_FLUSH_TYPE "pthread"
