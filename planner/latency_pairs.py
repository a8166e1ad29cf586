"""How many positions attention reads, summed over a sequence, in closed form and whole numbers.

A token at position t (from 1) reads n(t) positions. Prefill of T tokens reads the sum of n(t) for t = 1..T, and generation
without a cache runs a prefill for each new token, which is the sum of those sums. Both are polynomials by pieces, so a
million tokens cost as little as ten.

Source: causal attention, a token reads itself and what is before it; windows and chunks as in layers.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import InputError


def triangle(n: int) -> int:
    """1 + 2 + ... + n, 0 for n below 1."""
    return n * (n + 1) // 2 if n > 0 else 0


def tetrahedron(n: int) -> int:
    """The sum of the first n triangles, 0 for n below 1."""
    return n * (n + 1) * (n + 2) // 6 if n > 0 else 0


@dataclass(frozen=True)
class Reads:
    """Positions that one token reads: `at(t)`; their sum over a sequence: `total(T)`; the sum of totals: `totals(N)`."""

    def at(self, t: int) -> int:
        raise NotImplementedError

    def total(self, length: int) -> int:
        raise NotImplementedError

    def totals(self, length: int) -> int:
        raise NotImplementedError

    def between(self, first: int, last: int) -> int:
        """Positions read by the tokens at first + 1 .. last."""
        return self.total(last) - self.total(first)


@dataclass(frozen=True)
class Constant(Reads):
    """n(t) = count: encoder positions, and the work of a recurrent state, which does not grow."""

    count: int

    def at(self, t: int) -> int:
        return self.count

    def total(self, length: int) -> int:
        return self.count * length

    def totals(self, length: int) -> int:
        return self.count * triangle(length)


@dataclass(frozen=True)
class Capped(Reads):
    """n(t) = min(t, cap), all t positions where cap is None: full attention, windows, and the best positions of an index.

    min(t, W) = t - max(t - W, 0), so total(T) = tri(T) - tri(T - W) and totals(N) = tet(N) - tet(N - W).
    """

    cap: int | None = None

    def at(self, t: int) -> int:
        return t if self.cap is None else min(t, self.cap)

    def total(self, length: int) -> int:
        return triangle(length) - (0 if self.cap is None else triangle(length - self.cap))

    def totals(self, length: int) -> int:
        return tetrahedron(length) - (0 if self.cap is None else tetrahedron(length - self.cap))


@dataclass(frozen=True)
class Chunks(Reads):
    """n(t) = (t - 1) mod C + 1: attention never crosses a chunk's border.

    With T = q C + r: total(T) = q tri(C) + tri(r).
    """

    size: int

    def at(self, t: int) -> int:
        return (t - 1) % self.size + 1 if t else 0

    def total(self, length: int) -> int:
        whole, rest = divmod(length, self.size)
        return whole * triangle(self.size) + triangle(rest)

    def totals(self, length: int) -> int:
        size = self.size
        whole, rest = divmod(length, size)
        before = triangle(size) * (size * triangle(whole - 1) + whole * (rest + 1))
        return before + whole * tetrahedron(size - 1) + tetrahedron(rest)


@dataclass(frozen=True)
class Blocks(Reads):
    """n(t) = min(floor(t / rate), cap): compressed entries, one for every whole block of `rate` positions.

    min(floor(t / r), K) = floor(t / r) - floor((t - K r) / r) for t >= K r, so the capped sums are differences.
    """

    rate: int
    cap: int | None = None

    def at(self, t: int) -> int:
        return t // self.rate if self.cap is None else min(t // self.rate, self.cap)

    def total(self, length: int) -> int:
        return self._total(length) - (0 if self.cap is None else self._total(length - self.cap * self.rate))

    def totals(self, length: int) -> int:
        return self._totals(length) - (0 if self.cap is None else self._totals(length - self.cap * self.rate))

    def _total(self, length: int) -> int:
        if length <= 0:
            return 0
        whole, rest = divmod(length, self.rate)
        return self.rate * triangle(whole - 1) + whole * (rest + 1)

    def _totals(self, length: int) -> int:
        if length <= 0:
            return 0
        rate = self.rate
        whole, rest = divmod(length, rate)
        full = rate * rate * tetrahedron(whole - 2) + triangle(whole - 1) * triangle(rate)
        return full + (rest + 1) * rate * triangle(whole - 1) + whole * triangle(rest + 1)


def check_length(tokens: int, most: int = 10**9) -> int:
    """A sequence length that sums stay readable for. InputError above a thousand million tokens."""
    if tokens > most:
        raise InputError(f"{tokens:,} tokens are more than any model reads; at most {most:,}", field="tokens")
    return tokens
