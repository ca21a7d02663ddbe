"""Asks a real libscr what its parameters are: ``python libscr_query.py LIBRARY``, for test_resolution_libscr.

SCR's environment and working directory are those of this process. Standard input has one JSON object:
`programmatic`, what to set with SCR_Config first, and `names`, what to ask for. Standard output has one JSON
object: name to text, null for what no layer has. SCR reads its files once in a process: one for each case.
"""

import ctypes
import json
import os
import sys


def main() -> None:
    """Initialize the very MPI that LIBRARY is linked to (as a job of one rank), ask, and leave at once."""
    asked = json.load(sys.stdin)
    library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
    library.SCR_Config.restype = ctypes.c_char_p
    library.SCR_Config.argtypes = [ctypes.c_char_p]
    library.MPI_Init(None, None)
    for name, text in asked["programmatic"].items():
        library.SCR_Config(os.fsencode(f"{name}={text}"))
    answers = {name: library.SCR_Config(os.fsencode(name)) for name in asked["names"]}
    texts = {name: None if text is None else os.fsdecode(text) for name, text in answers.items()}
    sys.stdout.write("answers: " + json.dumps(texts) + "\n")
    sys.stdout.flush()
    library.MPI_Finalize()


if __name__ == "__main__":
    main()
