"""The time line of a job in blocks: who claims which stretch, and what each block adds up to.

A claim is a stretch of time, what it is for, and a step's number. At each moment the strongest claim wins, so
that claims may come in any order. Each block keeps its claims and the sum of its buckets; a claim that is
added or taken out makes only the blocks it touches dirty, and dirty blocks are summed again when somebody
asks. All times are whole nanoseconds: sums are exact. A doubt lies within one block.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from .block import Block, ClaimRows, Row
from .claims import DERIVED, KINDS, NEVER, Claims, Doubt, Longs, joined
from .sweep import Rules, sweep

Derived = tuple[Claims, list[Doubt]]
"""What starts and ends stand for."""


class ClaimTimeline:
    """Blocks that follow each other without a gap, from long ago to far ahead."""

    def __init__(self, block: int) -> None:
        self._block = block
        self.blocks: list[Block] = [Block(-NEVER, NEVER)]
        self._los: list[int] = [-NEVER]
        self._claims = 0
        self._dirty: set[Block] = set(self.blocks)
        self._total: Longs = np.zeros(0, np.int64)
        self._sums: Longs = np.zeros((1, 0), np.int64)
        self._summed = 0
        """So many blocks' rows are in the sums: each of these is that of all blocks before one."""

    def __len__(self) -> int:
        return self._claims

    def load(self, claims: Claims, doubts: list[Doubt], floor: int = -NEVER) -> None:
        """Start anew with `claims`."""
        start, order = claims.start, None
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start = start[order]
        cuts = _cuts(start[self._block :: self._block], doubts, floor)
        bounds = [floor, *cuts.tolist(), NEVER]
        edges = [0, *np.searchsorted(start, cuts).tolist(), len(start)]
        self.blocks, reaching = [], []
        for (lo, hi), within in zip(pairwise(bounds), map(slice, edges, edges[1:]), strict=True):
            part = claims.at(within if order is None else order[within])
            self.blocks.append(Block(lo, hi, part))
            reaching.append(part.at(np.flatnonzero(part.end > hi)))
        self._los = bounds[:-1]
        self._claims = len(start)
        self._dirty = set(self.blocks)
        self._total = np.zeros(0, np.int64)
        self._summed = 0
        for row in joined([Claims.of([]), *reaching]).rows():
            self._carry(row, bisect_right(self._los, row[0]))
        for doubt in doubts:
            self.doubt(doubt)

    def extend(self, claims: Claims) -> None:
        """Take claims in."""
        for row in claims.rows():
            self.add(row)

    def add(self, claim: Row) -> None:
        """Take a claim in."""
        self._claims += 1
        index = max(0, bisect_right(self._los, claim[0]) - 1)
        block = self.blocks[index]
        block.append(claim)
        self._soil(block)
        self._carry(claim, index + 1)
        if len(block.own) > max(2 * self._block, block.too_many):
            self._split(index)

    def doubt(self, doubt: Doubt) -> None:
        """Take a step of unknown end in."""
        block = self._one_block(doubt.start, doubt.end)
        block.doubts.append(doubt)
        self._soil(block)

    def exchange(self, gone: Derived, come: Derived) -> None:
        """Take claims and doubts out, and others in. What is in both stays where it is."""
        old, new = Counter(gone[0].rows()), Counter(come[0].rows())
        old_doubts, new_doubts = Counter(gone[1]), Counter(come[1])
        for claim in (old - new).elements():
            self._remove(claim)
        for doubt in (old_doubts - new_doubts).elements():
            self._remove_doubt(doubt)
        for claim in (new - old).elements():
            self.add(claim)
        for doubt in (new_doubts - old_doubts).elements():
            self.doubt(doubt)

    def touch(self, start: int, end: int) -> None:
        """What lies in [start, end] has to be summed again."""
        for index in range(max(0, bisect_right(self._los, start) - 1), bisect_right(self._los, end)):
            self._soil(self.blocks[index])

    def wasted_from(self, start: int, end: int, step: int) -> None:
        """Steps from `step` on that began in [start, end) may now be wasted, or not any more."""
        for block in self.blocks[max(0, bisect_right(self._los, start) - 1) :]:
            carried = block.carried.view()
            carried = carried.where((carried.start >= start) & (carried.start < end))
            if block.lo >= end and not len(carried.start):  # what reaches further was carried here, too
                break
            numbers = [each.step for each in block.doubts if start <= each.start < end]
            own = block.most if block.lo < end else -NEVER
            if max(own, int(carried.step.max(initial=-NEVER)), *numbers) >= step:
                self._soil(block)

    def least_step(self, start: int, end: int, step: int) -> int:
        """The lowest number of the steps (claims of kind `step`) that began in [start, end), or NEVER."""
        least = NEVER
        for block in self.blocks[max(0, bisect_right(self._los, start) - 1) : bisect_left(self._los, end)]:
            claims = block.own.view()
            which = (claims.kind & KINDS == step) & (claims.start >= start) & (claims.start < end)
            least = min(least, int(claims.step[which].min(initial=NEVER)))
            least = min([least, *(each.step for each in block.doubts if start <= each.start < end)])
        return least

    def told(self) -> Claims:
        """The claims that were told as such."""
        claims = joined([Claims.of([]), *(block.own.copy() for block in self.blocks)])
        return claims.where(claims.kind & DERIVED == 0)

    def total(self, rules: Rules) -> Longs:
        """Nanoseconds by code between the rules' first and last moment."""
        self._refresh(rules)
        return _widened(self._total, rules.size)

    def until(self, time: int, rules: Rules) -> Longs:
        """Nanoseconds by code from the rules' first moment to `time`."""
        self._refresh(rules)
        index = max(0, bisect_right(self._los, time) - 1)
        return self._before(index, rules.size) + self._swept(self.blocks[index], rules, time)

    def forget(self, keep: int) -> tuple[int, Longs] | None:
        """Let the oldest blocks go until at most `keep` claims are left: up to when, and what they held."""
        left, gone = len(self), 0
        while left > keep and gone < len(self.blocks) - 1:
            left -= len(self.blocks[gone].own)
            gone += 1
        if not gone:
            return None
        self._claims = left
        rows = [block.row for block in self.blocks[:gone] if block.row is not None]
        size = max(len(row) for row in rows)
        held: Longs = np.sum([_widened(row, size) for row in rows], axis=0, dtype=np.int64)
        self._total = self._total - _widened(held, len(self._total))
        self.blocks, self._los, self._summed = self.blocks[gone:], self._los[gone:], 0
        oldest = self.blocks[0]
        self._claims += len(oldest.carried)
        for claim in oldest.carried.copy().rows():  # whose block is gone
            oldest.append(claim)
        oldest.carried = ClaimRows()
        return self._los[0], held

    def _refresh(self, rules: Rules) -> None:
        if not self._dirty:
            return
        total = _widened(self._total, rules.size).copy()
        for block in self._dirty:
            block.row = self._swept(block, rules, NEVER)
            total += block.row
        self._total = total
        self._dirty.clear()

    def _before(self, index: int, size: int) -> Longs:
        """What the blocks before that one add up to."""
        height, width = self._sums.shape
        if height <= index or width < size:
            sums = np.zeros((len(self.blocks) * 5 // 4 + 2, size), np.int64)
            sums[: self._summed + 1, :width] = self._sums[: self._summed + 1]
            self._sums = sums
        for at in range(self._summed, index):
            row = self.blocks[at].row
            self._sums[at + 1] = self._sums[at]
            if row is not None:
                self._sums[at + 1, : len(row)] += row
        self._summed = max(self._summed, index)
        made: Longs = self._sums[index]
        return made

    def _swept(self, block: Block, rules: Rules, until: int) -> Longs:
        lo, hi = max(block.lo, rules.first), min(block.hi, rules.last)
        if hi < lo or until < lo:
            return np.zeros(rules.size, np.int64)
        claims = joined([block.own.view(), block.carried.view()])
        return sweep(claims, block.doubts, (lo, hi, min(until, hi)), rules)

    def _soil(self, block: Block) -> None:
        if block.row is not None:
            self._total = self._total - _widened(block.row, len(self._total))
            block.row = None
        self._dirty.add(block)
        self._summed = min(self._summed, bisect_right(self._los, block.lo) - 1)

    def _carry(self, claim: Row, index: int) -> None:
        while index < len(self.blocks) and self._los[index] < claim[1]:
            self.blocks[index].carried.append(claim)
            self._soil(self.blocks[index])
            index += 1

    def _remove(self, claim: Row) -> None:
        """Take a claim out; one that is forgotten is not there any more."""
        index = max(0, bisect_right(self._los, claim[0]) - 1)
        if not self.blocks[index].own.remove(claim):
            return
        self._claims -= 1
        self._soil(self.blocks[index])
        while (index := index + 1) < len(self.blocks) and self._los[index] < claim[1]:
            self.blocks[index].carried.remove(claim)
            self._soil(self.blocks[index])

    def _remove_doubt(self, doubt: Doubt) -> None:
        block = self.blocks[max(0, bisect_right(self._los, doubt.start) - 1)]
        if doubt in block.doubts:
            block.doubts.remove(doubt)
            self._soil(block)

    def _split(self, index: int) -> None:
        block = self.blocks[index]
        claims, carried = block.own.copy(), block.carried.copy()
        cut = _good_cut(claims.start, block.lo, block.doubts)
        if cut is None:
            block.too_many = 2 * len(claims.start)
            return
        early = claims.start < cut
        reaching = joined([carried, claims.where(early)])
        left = Block(block.lo, cut, claims.where(early), carried)
        right = Block(cut, block.hi, claims.where(~early), reaching.where(reaching.end > cut))
        left.doubts = [each for each in block.doubts if each.start < cut]
        right.doubts = [each for each in block.doubts if each.start >= cut]
        self._replace(index, index + 1, [left, right])

    def _one_block(self, start: int, end: int) -> Block:
        """The block that holds all of [start, end): blocks are joined where they must."""
        first = max(0, bisect_right(self._los, start) - 1)
        behind = max(first + 1, bisect_left(self._los, end))
        if behind == first + 1:
            return self.blocks[first]
        parts = self.blocks[first:behind]
        claims = joined([each.own.copy() for each in parts])
        made = Block(parts[0].lo, parts[-1].hi, claims, parts[0].carried.copy())
        made.doubts = [doubt for each in parts for doubt in each.doubts]
        made.too_many = 2 * len(claims.start)
        self._replace(first, behind, [made])
        return made

    def _replace(self, first: int, behind: int, made: list[Block]) -> None:
        for block in self.blocks[first:behind]:
            self._soil(block)
            self._dirty.discard(block)
        self.blocks[first:behind] = made
        self._los[first:behind] = [block.lo for block in made]
        self._dirty.update(made)


def _cuts(start: Longs, doubts: Iterable[Doubt], floor: int) -> Longs:
    """Return where blocks may begin: at the `start` of every so many claims, and never within a doubt."""
    cuts = np.unique(start)
    cuts = cuts[cuts > floor]
    spans = sorted((each.start, each.end) for each in doubts)
    if spans and len(cuts):
        starts = np.array([start for start, _ in spans], np.int64)
        reach = np.maximum.accumulate(np.array([end for _, end in spans], np.int64))
        behind = np.searchsorted(starts, cuts) - 1
        cuts = cuts[(behind < 0) | (reach[behind] <= cuts)]
    return cuts


def _good_cut(start: Longs, lo: int, doubts: list[Doubt]) -> int | None:
    ordered = np.sort(start)
    for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8):
        cut = int(ordered[int(share * len(ordered))])
        if cut > lo and not any(each.start < cut < each.end for each in doubts):
            return cut
    return None


def _widened(row: Longs, size: int) -> Longs:
    if len(row) >= size:
        return row
    made = np.zeros(size, np.int64)
    made[: len(row)] = row
    return made
