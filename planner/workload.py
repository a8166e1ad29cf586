"""Requests: how long their prompts and answers are, how many there are at once, and what they have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from planner.cache import check_count
from planner.errors import InputError, shown
from planner.workload_lengths import Lengths, read_lengths

#: Points of the quantile function that averages are taken over, and that lengths of whole requests are combined from.
_FINE, _COARSE = 8192, 256
#: Beams that an engine would take for a real question.
_MOST_BEAMS = 64


@dataclass(frozen=True)
class Workload:
    """`requests` requests at once, each of prompt_tokens and up to output_tokens.

    prompt_tokens, output_tokens: a count, or `Lengths` where they vary (independent of each other); without a prompt each
    request is as long as the engine allows. samples: pairs of (prompt, output) that were observed, which take their place and
    keep prompt and answer together. shared_prefix_tokens: the
    first tokens that all prompts have in common; engines store whole blocks of them once. speculative_tokens: positions that a
    draft occupies beyond the answer. beams: sequences that a request decodes side by side. encoder_tokens: encoder positions.
    image_tokens: what images become in the prompt, on top of prompt_tokens. occupancy: "worst" plans for every request at its
    longest at once, "typical" for what they hold together in 95% of the moments; where lengths vary that is the default.

    Errors: InputError naming the field.
    """

    prompt_tokens: int | Lengths | None = None
    output_tokens: int | Lengths = 0
    requests: int = 1
    shared_prefix_tokens: int = 0
    speculative_tokens: int = 0
    beams: int = 1
    encoder_tokens: int = 0
    image_tokens: int = 0
    occupancy: Literal["worst", "typical"] | None = None
    samples: tuple[tuple[int, int], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        check_count(self.requests, "requests", 1)
        for name in ("shared_prefix_tokens", "speculative_tokens", "encoder_tokens", "image_tokens"):
            check_count(getattr(self, name), name)
        for name in ("prompt_tokens", "output_tokens"):
            value = getattr(self, name)
            if not isinstance(value, Lengths) and not (value is None and name == "prompt_tokens"):
                check_count(value, name)
        if self.full and self.output_tokens != 0:
            raise InputError("output_tokens needs prompt_tokens: without one requests fill the context", field="prompt_tokens")
        if check_count(self.beams, "beams", 1) > _MOST_BEAMS:
            raise InputError(f"beams is {self.beams}; at most {_MOST_BEAMS} are taken", field="beams")
        if self.occupancy not in (None, "worst", "typical") or (self.occupancy == "typical" and self.full):
            why = "it is worst, or typical where lengths are said"
            raise InputError(f"occupancy is {shown(self.occupancy)}; {why}", field="occupancy")
        if not isinstance(self.samples, tuple) or not all(isinstance(p, tuple) and len(p) == 2 for p in self.samples):
            raise InputError("samples are pairs of (prompt, output)", field="samples")
        longest = self.longest
        if longest is not None and longest < 1:
            raise InputError("a request needs at least one token: say prompt_tokens or output_tokens", field="prompt_tokens")
        prompt = self.largest_prompt
        if prompt is not None and self.shared_prefix_tokens > prompt:
            why = f"shared_prefix_tokens {self.shared_prefix_tokens:,} is more than the prompt's {prompt:,}"
            raise InputError(f"{why}; a prefix is part of it", field="shared_prefix_tokens")

    @classmethod
    def from_file(
        cls, path: str | Path, requests: int = 1, *, progress: Callable[[float], None] | None = None, **others: Any
    ) -> Workload:
        """Observed lengths from a CSV or JSONL file; `progress` is called with the share that is read, 0 to 1.

        Errors: InputError naming the file and the line. Source: `workload_lengths.read_lengths` says what a file looks like.
        """
        return cls(samples=read_lengths(Path(path), progress), requests=requests, **others)

    @property
    def full(self) -> bool:
        """Whether each request is as long as the engine allows, because no length was said."""
        return self.prompt_tokens is None and not self.samples

    @property
    def typical(self) -> bool:
        """Whether to plan for 95% of the moments instead of the worst one."""
        return self.varies if self.occupancy is None else self.occupancy == "typical"

    @functools.cached_property
    def varies(self) -> bool:
        """Whether requests differ in length."""
        if self.samples:
            return len(set(self.samples)) > 1
        return any(isinstance(v, Lengths) and not v.fixed for v in (self.prompt_tokens, self.output_tokens))

    @functools.cached_property
    def largest_prompt(self) -> int | None:
        """The longest prompt with its images; None where the distribution has no end."""
        if self.samples:
            return max(prompt for prompt, _ in self.samples) + self.image_tokens
        longest = _longest(self.prompt_tokens)
        return None if longest is None else longest + self.image_tokens

    @functools.cached_property
    def smallest_prompt(self) -> int | None:
        """The shortest prompt with its images, the most that all can have in common; None where no length was said."""
        if self.prompt_tokens is None and not self.samples:
            return None
        if self.samples:
            return min(prompt for prompt, _ in self.samples) + self.image_tokens
        return _at(self._prompt(), 0.0) + self.image_tokens

    @functools.cached_property
    def longest(self) -> int | None:
        """Positions of the longest request, prompt + output + draft; None where a distribution has no end."""
        extra = self.image_tokens + self.speculative_tokens
        if self.samples:
            return max(prompt + output for prompt, output in self.samples) + extra
        prompt, output = _longest(self.prompt_tokens), _longest(self.output_tokens)
        return None if prompt is None or output is None else prompt + output + extra

    def pairs(self) -> tuple[tuple[int, int, float], ...]:
        """(prompt, output, share of requests) of the workload: all samples, or points of the quantile functions.

        Errors: InputError where no length was said.
        """
        if self.samples:
            share = 1 / len(self.samples)
            return tuple((prompt + self.image_tokens, output, share) for prompt, output in self.samples)
        prompts, outputs = _points(self._prompt()), _points(self.output_tokens)
        share = 1 / (len(prompts) * len(outputs))
        return tuple((prompt + self.image_tokens, output, share) for prompt in prompts for output in outputs)

    def _prompt(self) -> int | Lengths:
        """The prompt's lengths without images; of a distribution, none is shorter than the prefix that all begin with."""
        if self.prompt_tokens is None:
            raise InputError("say prompt_tokens: nothing is known of the lengths of these requests", field="prompt_tokens")
        if isinstance(self.prompt_tokens, Lengths):
            return replace(self.prompt_tokens, shortest=max(0, self.shared_prefix_tokens - self.image_tokens))
        return self.prompt_tokens

    def drawn(self, uniform: Callable[[int], Sequence[float]], count: int) -> tuple[list[int], list[int]]:
        """Prompts and outputs of `count` requests at random, from a source of uniform numbers. Errors: as `pairs`."""
        if self.samples:
            chosen = [self.samples[int(u * len(self.samples))] for u in uniform(count)]
            return [prompt + self.image_tokens for prompt, _ in chosen], [output for _, output in chosen]
        prompts = [_at(self._prompt(), u) + self.image_tokens for u in uniform(count)]
        return prompts, [_at(self.output_tokens, u) for u in uniform(count)]

    def quantile(self, share: float) -> int:
        """Positions that a `share` of the requests do not exceed at their end, 0 to 1.

        Errors: InputError outside 0 to 1, and for 1 where a distribution has no end.
        """
        if not 0 <= share <= 1:
            raise InputError(f"a quantile is from 0 to 1, not {shown(share)}", field="quantile")
        if share == 1:
            if self.longest is None:
                raise InputError("the distribution has no longest request; give one, or a smaller quantile", field="quantile")
            return self.longest
        ends = sorted((prompt + output, weight) for prompt, output, weight in self.pairs())
        reached = 0.0
        for tokens, weight in ends:
            reached += weight
            if reached >= share - 1e-12:
                return tokens + self.speculative_tokens
        return ends[-1][0] + self.speculative_tokens

    @property
    def mean_tokens(self) -> float:
        """Average positions of a request at its end."""
        return sum(self._means[:2]) + self.speculative_tokens

    @property
    def mean_output(self) -> float:
        """Average tokens of an answer, at least the one that a prompt without an answer runs for."""
        return self._means[1]

    @property
    def mean_occupancy(self) -> float:
        """Average positions that a running request holds, over the steps of its life.

        mean = E[o x p + o x (o - 1) / 2] / E[o]: at its step t of o a request of prompt p holds p + t - 1 positions, and a
        request that runs for more steps is met more often. p + (o - 1) / 2 for fixed lengths; p + o is the worst case.

        Source: generation writes the last token's keys and values never, every other one once (transformers, measured).
        """
        _, steps, products, squares = self._means
        return (products + (squares - steps) / 2) / max(steps, 1.0) + self.speculative_tokens

    @functools.cached_property
    def _means(self) -> tuple[float, float, float, float]:
        """E[p], E[o], E[o x p], E[o x o]; a request without output runs for the one step of its prompt."""
        if self.samples:
            pairs = [(prompt + self.image_tokens, max(output, 1)) for prompt, output in self.samples]
            rows = [(p, o, p * o, o * o) for p, o in pairs]
            prompt, output, product, square = (sum(column) / len(rows) for column in zip(*rows, strict=True))
            return prompt, output, product, square
        prompts = _points(self._prompt(), _FINE)
        outputs = [max(1, output) for output in _points(self.output_tokens, _FINE)]
        prompt, output = sum(prompts) / len(prompts) + self.image_tokens, sum(outputs) / len(outputs)
        return prompt, output, prompt * output, sum(o * o for o in outputs) / len(outputs)


def _longest(value: int | Lengths | None) -> int | None:
    return value.longest if isinstance(value, Lengths) else value


def _at(value: int | Lengths, share: float) -> int:
    return value.quantile(share) if isinstance(value, Lengths) else value


def _points(value: int | Lengths, count: int = _COARSE) -> tuple[int, ...]:
    if not isinstance(value, Lengths) or value.fixed:
        return (value.quantile(0.5) if isinstance(value, Lengths) else value,)
    return tuple(value.quantile((step + 0.5) / count) for step in range(count))
