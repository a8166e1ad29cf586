"""Lengths that vary: a log-normal, stated percentiles, or a file of what was observed."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from planner.cache import check_count
from planner.errors import InputError, shown

#: The largest file of lengths that is read.
MOST_BYTES = 256 * 1024 * 1024
#: The longest line of such a file.
_MOST_LINE = 1024 * 1024
#: Names under which prompt and output lengths are found.
_PROMPT = ("prompt_tokens", "prompt", "input_tokens", "input", "input_len", "prompt_len", "contexttokens", "request tokens")
_OUTPUT = ("output_tokens", "output", "completion_tokens", "output_len", "generatedtokens", "response tokens")


@dataclass(frozen=True)
class Lengths:
    """A distribution of lengths by its quantile function; made by `lognormal`, `percentiles` or `exactly`.

    points: (share, tokens) with straight lines between. mu, sigma: of the logarithm, for a log-normal. longest: what no
    length exceeds (longer ones are cut to it), None where nothing is said; shortest: what every length has at least.
    """

    points: tuple[tuple[float, int], ...] = ()
    mu: float = 0.0
    sigma: float = 0.0
    longest: int | None = None
    shortest: int = 0

    @classmethod
    def lognormal(cls, p50: int, p95: int, longest: int | None = None) -> Lengths:
        """The log-normal with this median and 95th percentile: ln x ~ N(ln p50, (ln p95 - ln p50) / 1.645).

        Errors: InputError (p50 below 1, p95 below p50, a longest below p95).
        """
        check_count(p50, "p50", 1)
        if check_count(p95, "p95", 1) < p50:
            raise InputError(f"p95 is {p95:,}, below the median of {p50:,}", field="p95")
        if longest is not None and check_count(longest, "longest", 1) < p95:
            raise InputError(f"longest is {longest:,}, below the 95th percentile of {p95:,}", field="longest")
        sigma = (math.log(p95) - math.log(p50)) / NormalDist().inv_cdf(0.95)
        return cls(mu=math.log(p50), sigma=sigma, longest=longest if sigma else p50)

    @classmethod
    def percentiles(cls, given: Mapping[float, int], mean: float | None = None) -> Lengths:
        """Straight lines between stated percentiles, {50: 800, 95: 4000, 100: 9000}, from 1 token at 0.

        The 100th, the longest, has to be among them: what lies beyond the last one is not guessed. With `mean`, the stated
        points have to be able to have it. Errors: InputError.
        """
        if not given or max(given) != 100:
            raise InputError("percentiles need the 100th, the longest: what lies beyond is not guessed", field="percentiles")
        points = sorted((share / 100, check_count(tokens, "percentiles")) for share, tokens in given.items())
        if points[0][0] < 0 or any(b[1] < a[1] for a, b in itertools.pairwise(points)):
            raise InputError("percentiles are from 0 to 100 and their lengths do not fall", field="percentiles")
        if points[0][0] > 0:
            points.insert(0, (0.0, min(1, points[0][1])))
        spans = list(itertools.pairwise(points))
        low, high = (sum((b[0] - a[0]) * end[1] for a, b in spans for end in ((a, b)[side],)) for side in (0, 1))
        if mean is not None and not low <= mean <= high:
            raise InputError(f"a mean of {mean:,} cannot be: these percentiles allow {low:,.0f} to {high:,.0f}", field="mean")
        return cls(points=tuple(points), longest=points[-1][1])

    @classmethod
    def parse(cls, text: str, field: str = "lengths") -> int | Lengths:
        """A count ("1000"), a log-normal ("p50=800,p95=4000", with "max=16000" for its end), or percentiles with the longest
        ("p50=800,p90=3000,p99=9000,max=16000", with "mean=1200" to be checked). Errors: InputError naming `field`.
        """
        plain = text.replace("_", "").strip()
        if plain.isascii() and plain.isdigit():
            return check_count(int(plain), field)
        found: dict[str, int] = {}
        for word in plain.split(","):
            name, _, value = word.partition("=")
            if not re.fullmatch(r"p\d{1,2}(\.\d+)?|max|mean", name.strip()) or not value.strip().isdigit():
                raise InputError(f"{field}: {shown(text)} is neither a count nor like p50=800,p95=4000,max=16000", field=field)
            found[name.strip()] = int(value)
        longest, mean = found.pop("max", None), found.pop("mean", None)
        if set(found) == {"p50", "p95"} and mean is None:
            return cls.lognormal(found["p50"], found["p95"], longest)
        if longest is None:
            raise InputError(f"{field}: percentiles other than p50,p95 need max=, the longest length", field=field)
        return cls.percentiles({**{float(name[1:]): value for name, value in found.items()}, 100: longest}, mean)

    @property
    def fixed(self) -> bool:
        return self.points[0][1] == self.points[-1][1] if self.points else self.sigma == 0

    def quantile(self, share: float) -> int:
        """The length that this share does not exceed, rounded up, because a need rounds up."""
        return max(self.shortest, self._quantile(share))

    def _quantile(self, share: float) -> int:
        if self.points:
            for (low, first), (high, last) in itertools.pairwise(self.points):
                if share <= high:
                    part = (share - low) / (high - low) if high > low else 1.0
                    return math.ceil(first + (last - first) * part - 1e-9)
            return self.points[-1][1]
        if self.sigma == 0:
            return round(math.exp(self.mu))
        if share <= 0:
            return 1
        if share >= 1:
            if self.longest is None:
                raise InputError("a log-normal has no longest length; give one", field="longest")
            return self.longest
        tokens = math.ceil(math.exp(self.mu + self.sigma * NormalDist().inv_cdf(share)) - 1e-9)
        return max(1, tokens if self.longest is None else min(tokens, self.longest))


def read_lengths(path: Path, progress: Callable[[float], None] | None = None) -> tuple[tuple[int, int], ...]:
    """(prompt, output) pairs of a file, at most 256 MiB.

    CSV: a header that names the two columns (prompt_tokens and output_tokens, or the words that public traces use), or two
    columns of numbers without one. JSONL: an object a line with the same names. `progress` gets the share read, 0 to 1.
    Errors: InputError naming the file, the line and what is wrong with it.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InputError(f"{path.name} has {size:,} bytes; at most {MOST_BYTES:,} are read", field="lengths")
        with path.open("rb") as stream:
            found = tuple(_rows(path.name, stream, size, progress))
    except OSError as error:
        raise InputError(f"cannot read {shown(str(path))}: {error.strerror or error}", field="lengths") from None
    if not found:
        raise InputError(f"{path.name} has no lengths in it", field="lengths")
    if progress is not None:
        progress(1.0)
    return found


def _rows(
    name: str, stream: io.BufferedReader, size: int, progress: Callable[[float], None] | None
) -> Iterator[tuple[int, int]]:
    columns: tuple[int, int] | None = None
    read = number = 0
    while line := stream.readline(_MOST_LINE + 1):
        number, read = number + 1, read + len(line)
        if len(line) > _MOST_LINE:
            raise InputError(f"{name}, line {number}: longer than {_MOST_LINE:,} bytes", field="lengths")
        if progress is not None and number % 20_000 == 0:
            progress(min(1.0, read / size) if size else 1.0)
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError:
            raise InputError(f"{name}, line {number}: not UTF-8 text", field="lengths") from None
        if not text:
            continue
        if text.startswith("{"):
            yield _object(name, number, text)
            continue
        cells = [cell.strip() for cell in next(csv.reader([text]))]
        if columns is None:
            columns, header = _columns(name, cells)
            if header:
                continue
        if len(cells) <= max(columns):
            raise InputError(f"{name}, line {number}: {len(cells)} columns, and {max(columns) + 1} are needed", field="lengths")
        yield _length(name, number, cells[columns[0]]), _length(name, number, cells[columns[1]])


def _columns(name: str, cells: list[str]) -> tuple[tuple[int, int], bool]:
    """Which two columns hold the lengths, and whether this line was a header."""
    words = [cell.lower() for cell in cells]
    found = [next((words.index(word) for word in known if word in words), None) for known in (_PROMPT, _OUTPUT)]
    if found[0] is not None and found[1] is not None:
        return (found[0], found[1]), True
    if len(cells) == 2 and all(cell.isdigit() for cell in cells):
        return (0, 1), False
    raise InputError(
        f"{name}: no columns called prompt_tokens and output_tokens (found {shown(', '.join(cells), 80)})", field="lengths"
    )


def _object(name: str, number: int, text: str) -> tuple[int, int]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{name}, line {number}: not a JSON object", field="lengths") from None
    words = {str(key).lower(): value for key, value in row.items()}
    found = [next((words[word] for word in known if word in words), None) for known in (_PROMPT, _OUTPUT)]
    if found[0] is None or found[1] is None:
        raise InputError(f"{name}, line {number}: it needs prompt_tokens and output_tokens", field="lengths")
    return _length(name, number, found[0]), _length(name, number, found[1])


def _length(name: str, number: int, value: object) -> int:
    text = str(value)
    whole = text.removesuffix(".0")
    if isinstance(value, bool) or not whole.isascii() or not whole.isdigit() or len(whole) > 12:
        raise InputError(f"{name}, line {number}: {shown(value)} is not a number of tokens", field="lengths")
    return int(whole)
