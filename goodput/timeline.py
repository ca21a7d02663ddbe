"""The time line of a job in blocks: who claims which stretch, and what each block adds up to.

A claim is a stretch of time, what it is for, and a step's number. At each moment the strongest claim wins, so
that claims may come in any order. Each block keeps its claims and the sum of its buckets; a claim that is
added makes only the blocks it touches dirty, and dirty blocks are summed again when somebody asks. All times
are whole nanoseconds: sums are exact. A doubt lies within one block.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from .claims import DERIVED, NEVER, Claim, Claims, Doubt, Longs, joined
from .sweep import Rules, sweep

BLOCK = 1024


class Block:
    """The claims that start in [`lo`, `hi`), and `carried` ones that began before and reach into it."""

    __slots__ = ("carried", "doubts", "end", "hi", "kind", "lo", "most", "row", "start", "step", "too_many")

    def __init__(self, lo: int, hi: int, claims: Claims | None = None) -> None:
        self.lo, self.hi = lo, hi
        claims = Claims.of([]) if claims is None else claims
        self.start, self.end = array("q", claims.start.tobytes()), array("q", claims.end.tobytes())
        self.step, self.kind = (
            array("q", claims.step.tobytes()),
            array("i", claims.kind.astype("i").tobytes()),
        )
        self.carried: list[tuple[int, int, int, int]] = []
        self.doubts: list[Doubt] = []
        self.row: Longs | None = None
        self.most = int(claims.step.max(initial=-NEVER))
        self.too_many = 2 * BLOCK

    def view(self) -> Claims:
        """Those that start here, to look at only: nothing can be added as long as it is kept."""
        kind: Any = np.frombuffer(self.kind, np.int32)
        start, end, step = (np.frombuffer(each, np.int64) for each in (self.start, self.end, self.step))
        return Claims(start, end, kind, step)

    def claims(self) -> Claims:
        """Those that start here."""
        return Claims(
            np.array(self.start, np.int64),
            np.array(self.end, np.int64),
            np.array(self.kind, np.int64),
            np.array(self.step, np.int64),
        )


class Timeline:
    """Blocks that follow each other without a gap, from long ago to far ahead."""

    def __init__(self) -> None:
        self.blocks: list[Block] = [Block(-NEVER, NEVER)]
        self._los: list[int] = [-NEVER]
        self._claims = 0
        self._dirty: set[Block] = set(self.blocks)
        self._total: Longs = np.zeros(0, np.int64)
        self._prefix: Longs | None = None
        self._overlay: set[Claim | Doubt] = set()
        self._over: Claims = Claims.of([])
        self._over_doubts: list[Doubt] = []

    def __len__(self) -> int:
        return self._claims

    def load(self, claims: Claims, doubts: list[Doubt], floor: int = -NEVER) -> None:
        """Start anew with `claims`."""
        start, order = claims.start, None
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start = start[order]
        cuts = _cuts(start, doubts, floor)
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
        self._prefix = None
        self._overlay, self._over, self._over_doubts = set(), Claims.of([]), []
        for row in joined([Claims.of([]), *reaching]).rows():
            self._carry(row, bisect_right(self._los, row[0]))
        for doubt in doubts:
            self.doubt(doubt)

    def extend(self, claims: Claims) -> None:
        """Take claims in."""
        for row in claims.rows():
            self.add(row)

    def add(self, claim: tuple[int, int, int, int]) -> None:
        """Take a claim in."""
        self._claims += 1
        index = max(0, bisect_right(self._los, claim[0]) - 1)
        block = self.blocks[index]
        block.start.append(claim[0])
        block.end.append(claim[1])
        block.kind.append(claim[2])
        block.step.append(claim[3])
        block.most = max(block.most, claim[3])
        self._soil(block)
        self._carry(claim, index + 1)
        if len(block.start) > block.too_many:
            self._split(index)

    def doubt(self, doubt: Doubt) -> None:
        """Take a step of unknown end in."""
        block = self._one_block(doubt.start, doubt.end)
        block.doubts.append(doubt)
        self._soil(block)

    def overlay(self, claims: Claims, doubts: list[Doubt]) -> None:
        """What may still change lies over the rest; it takes the place of the last overlay."""
        made: set[Claim | Doubt] = {Claim(*row) for row in claims.rows()}
        made.update(doubts)
        if made == self._overlay:
            return
        for doubt in doubts:
            self._one_block(doubt.start, doubt.end)
        for each in made ^ self._overlay:
            self.touch(each.start, each.end)
        self._overlay, self._over, self._over_doubts = made, claims, doubts

    def touch(self, start: int, end: int) -> None:
        """What lies in [start, end] has to be summed again."""
        for index in range(max(0, bisect_right(self._los, start) - 1), bisect_right(self._los, end)):
            self._soil(self.blocks[index])

    def wasted_from(self, start: int, end: int, step: int) -> None:
        """Steps from `step` on that began in [start, end) may now be wasted, or not any more."""
        for block in self.blocks:
            own = block.most >= step and block.lo < end and block.hi > start
            carried = any(number >= step and start <= begun < end for begun, _, _, number in block.carried)
            if (
                own
                or carried
                or any(each.step >= step and start <= each.start < end for each in block.doubts)
            ):
                self._soil(block)
        for each in self._overlay:
            if each.step >= step:
                self.touch(each.start, each.end)

    def told(self) -> Claims:
        """The claims that were told as such."""
        claims = joined([Claims.of([]), *(block.claims() for block in self.blocks)])
        return claims.where(claims.kind & DERIVED == 0)

    def total(self, rules: Rules) -> Longs:
        """Nanoseconds by code between the rules' first and last moment."""
        self._refresh(rules)
        return _widened(self._total, rules.size)

    def until(self, time: int, rules: Rules) -> Longs:
        """Nanoseconds by code from the rules' first moment to `time`."""
        self._refresh(rules)
        if self._prefix is None:
            rows = np.zeros((len(self.blocks) + 1, rules.size), np.int64)
            for index, block in enumerate(self.blocks):
                if block.row is not None:
                    rows[index + 1, : len(block.row)] = block.row
            self._prefix = np.cumsum(rows, axis=0)
        index = max(0, bisect_right(self._los, time) - 1)
        before = _widened(self._prefix[index], rules.size)
        return before + self._swept(self.blocks[index], rules, time)

    def forget(self, keep: int) -> tuple[int, Longs] | None:
        """Let the oldest blocks go until at most `keep` claims are left: up to when, and what they held."""
        left, gone = len(self), 0
        while left > keep and gone < len(self.blocks) - 1:
            left -= len(self.blocks[gone].start)
            gone += 1
        if not gone:
            return None
        self._claims = left
        rows = [block.row for block in self.blocks[:gone] if block.row is not None]
        size = max(len(row) for row in rows)
        held: Longs = np.sum([_widened(row, size) for row in rows], axis=0, dtype=np.int64)
        self._total = self._total - _widened(held, len(self._total))
        self.blocks, self._los, self._prefix = self.blocks[gone:], self._los[gone:], None
        oldest = self.blocks[0]
        self._claims += len(oldest.carried)
        for start, end, kind, step in oldest.carried:  # whose block is gone
            oldest.start.append(start)
            oldest.end.append(end)
            oldest.kind.append(kind)
            oldest.step.append(step)
            oldest.most = max(oldest.most, step)
        oldest.carried = []
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
        self._prefix = None

    def _swept(self, block: Block, rules: Rules, until: int) -> Longs:
        lo, hi = max(block.lo, rules.first), min(block.hi, rules.last)
        if hi <= lo or until <= lo:
            return np.zeros(rules.size, np.int64)
        parts = [block.view()]
        if block.carried:
            parts.append(Claims.of(block.carried))
        doubts = block.doubts
        if self._overlay:
            over = self._over
            near = (over.start < hi) & (over.end > lo)
            if near.any():
                parts.append(over.where(near))
            doubts = doubts + [each for each in self._over_doubts if each.start < hi and each.end > lo]
        claims = joined(parts) if len(parts) > 1 else parts[0]
        return sweep(claims, doubts, (lo, hi, min(until, hi)), rules)

    def _soil(self, block: Block) -> None:
        if block.row is not None:
            self._total = self._total - _widened(block.row, len(self._total))
            block.row = None
        self._dirty.add(block)

    def _carry(self, claim: tuple[int, ...], index: int) -> None:
        start, end, kind, step = claim
        while index < len(self.blocks) and self._los[index] < end:
            self.blocks[index].carried.append((start, end, kind, step))
            self._soil(self.blocks[index])
            index += 1

    def _doubts(self, block: Block) -> Iterator[Doubt]:
        yield from block.doubts
        yield from (each for each in self._over_doubts if each.start < block.hi and each.end > block.lo)

    def _split(self, index: int) -> None:
        block = self.blocks[index]
        claims = block.claims()
        cut = _good_cut(claims.start, block.lo, list(self._doubts(block)))
        if cut is None:
            block.too_many *= 2
            return
        left = Block(block.lo, cut, claims.where(claims.start < cut))
        right = Block(cut, block.hi, claims.where(claims.start >= cut))
        left.carried = block.carried
        right.carried = [each for each in block.carried if each[1] > cut]
        reaching = claims.where((claims.start < cut) & (claims.end > cut))
        right.carried += reaching.rows()
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
        made = Block(parts[0].lo, parts[-1].hi, joined([each.claims() for each in parts]))
        made.carried = list(parts[0].carried)
        made.doubts = [doubt for each in parts for doubt in each.doubts]
        made.too_many = max(2 * len(made.start), 2 * BLOCK)
        self._replace(first, behind, [made])
        return made

    def _replace(self, first: int, behind: int, made: list[Block]) -> None:
        for block in self.blocks[first:behind]:
            self._soil(block)
            self._dirty.discard(block)
        self.blocks[first:behind] = made
        self._los[first:behind] = [block.lo for block in made]
        self._dirty.update(made)
        self._prefix = None


def _cuts(start: Longs, doubts: Iterable[Doubt], floor: int) -> Longs:
    """Where blocks may begin: every so many claims, and never within a doubt."""
    cuts = np.unique(start[BLOCK::BLOCK])
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
