"""Linux's list form of a set of CPUs: ``0-2,5``."""

import re
from collections.abc import Iterable

LARGEST_CPU = 8191
"""The kernel's largest NR_CPUS, less one."""

_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def cpu_list(cpus: Iterable[int]) -> str:
    """Return the list form of `cpus`."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, each)) for each in ranges)


def cpus_of(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as ``1,3-5``; none for an empty one. Raises ValueError."""
    parts = [_RANGE.fullmatch(part) for part in text.split(",")] if text else []
    ranges = [(int(part[1]), int(part[2] or part[1])) for part in parts if part]
    if None in parts or not all(first <= last <= LARGEST_CPU for first, last in ranges):
        raise ValueError(f"{text!r} is no cpu list; write CPUs 0 to {LARGEST_CPU} as in 1,3-5")
    return frozenset(cpu for first, last in ranges for cpu in range(first, last + 1))
