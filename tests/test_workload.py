"""Workloads: what they say of their lengths, and what is refused."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.workload import Workload
from planner.workload_lengths import Lengths


def test_fixed_lengths() -> None:
    """Worst case p + o, average p + (o - 1) / 2, by hand."""
    work = Workload(1000, 500, 64)
    assert (work.longest, work.quantile(0.1), work.quantile(1.0)) == (1500, 1500, 1500)
    assert work.mean_tokens == 1500
    assert work.mean_occupancy == 1000 + 499 / 2
    assert not work.varies
    assert not work.typical


def test_without_lengths_requests_fill_the_context() -> None:
    work = Workload(requests=8)
    assert work.full
    assert work.longest is None
    with pytest.raises(InputError, match="prompt_tokens"):
        _ = work.mean_tokens


def test_images_and_drafts_are_positions() -> None:
    work = Workload(100, 50, image_tokens=576, speculative_tokens=3)
    assert work.longest == 100 + 576 + 50 + 3
    assert work.largest_prompt == 676


def test_lognormal_has_its_percentiles() -> None:
    """The stated median and 95th percentile are those of the distribution, and its mean is exp(mu + sigma^2 / 2)."""
    lengths = Lengths.lognormal(800, 4000)
    assert (lengths.quantile(0.5), lengths.quantile(0.95)) == (800, 4000)
    work = Workload(lengths, 1)
    assert work.mean_tokens - 1 == pytest.approx(1289.6, rel=0.01)
    assert work.longest is None
    assert Lengths.lognormal(800, 4000, longest=5000).quantile(0.999) == 5000
    with pytest.raises(InputError, match="no longest"):
        work.quantile(1.0)


def test_percentiles_need_their_end() -> None:
    with pytest.raises(InputError, match="100th"):
        Lengths.percentiles({50: 800, 95: 4000})
    lengths = Lengths.percentiles({50: 801, 100: 1001})
    assert [lengths.quantile(q) for q in (0.0, 0.25, 0.5, 0.75, 1.0)] == [1, 401, 801, 901, 1001]
    with pytest.raises(InputError, match="mean"):
        Lengths.percentiles({50: 800, 100: 1000}, mean=5000)


@pytest.mark.parametrize(
    ("text", "longest"),
    [("1_000", 1000), ("p50=800,p95=4000", None), ("p50=800,p95=4000,max=9000", 9000), ("p50=8,p99=20,max=30", 30)],
)
def test_lengths_as_words(text: str, longest: int | None) -> None:
    found = Lengths.parse(text)
    assert (found if isinstance(found, int) else found.longest) == longest


@pytest.mark.parametrize("text", ["", "p50", "p50=1,p99=4", "p50=x,p95=9", "50=1", "-4", "p50=800,p95=400"])
def test_words_that_are_no_lengths(text: str) -> None:
    with pytest.raises(InputError):
        Lengths.parse(text, "prompt")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "prompt_tokens,output_tokens\n10,5\n20,7\n"),
        ("b.csv", "10,5\n20,7\n"),
        ("c.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023,10,5\n2024,20,7\n"),
        ("d.jsonl", '{"prompt_tokens": 10, "output_tokens": 5}\n\n{"prompt_tokens": 20, "output_tokens": 7}\n'),
    ],
)
def test_observed_lengths(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    seen: list[float] = []
    work = Workload.from_file(tmp_path / name, 4, progress=seen.append)
    assert work.samples == ((10, 5), (20, 7))
    assert (work.longest, work.quantile(0.5), work.mean_tokens) == (27, 15, 21.0)
    # Five steps of 10 to 14 positions and seven of 20 to 26, each step alike.
    assert work.mean_occupancy == pytest.approx((sum(range(10, 15)) + sum(range(20, 27))) / 12)
    assert seen[-1] == 1.0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "no lengths"), (b"prompt_tokens,output_tokens\n", "no lengths"), (b"a,b\n1,2\n", "no columns"),
        (b"10,5\n10\n", "line 2"), (b"10,5\n10,-5\n", "line 2"), (b"10,5\n1.5,5\n", "line 2"), (b"\xff\xfe\n", "UTF-8"),
        (b'{"prompt_tokens": 1}\n', "line 1"), (b'{"prompt_tokens": \n', "line 1"), (b"9" * 2_000_000, "longer"),
        (b'{"prompt_tokens": true, "output_tokens": 1}\n', "line 1"),
    ],
)  # fmt: skip
def test_files_that_are_no_lengths(tmp_path: Path, text: bytes, why: str) -> None:
    """Each says the file and the line."""
    (tmp_path / "x.csv").write_bytes(text)
    with pytest.raises(InputError, match=why):
        Workload.from_file(tmp_path / "x.csv")


def test_a_missing_file() -> None:
    with pytest.raises(InputError, match="cannot read"):
        Workload.from_file("/nonexistent/lengths.csv")


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"requests": 0}, "requests"), ({"prompt_tokens": -1}, "prompt_tokens"), ({"prompt_tokens": 1.5}, "prompt_tokens"),
        ({"output_tokens": 5}, "prompt_tokens"), ({"prompt_tokens": 10, "shared_prefix_tokens": 11}, "shared_prefix_tokens"),
        ({"prompt_tokens": 1, "beams": 0}, "beams"), ({"prompt_tokens": 1, "beams": 1000}, "beams"),
        ({"occupancy": "typical"}, "occupancy"), ({"prompt_tokens": 1, "occupancy": "mean"}, "occupancy"),
        ({"prompt_tokens": 0, "output_tokens": 0}, "prompt_tokens"), ({"samples": ((1,),)}, "samples"),
        ({"prompt_tokens": True}, "prompt_tokens"),
    ],
)  # fmt: skip
def test_what_is_no_workload(values: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as error:
        Workload(**values)  # type: ignore[arg-type]
    assert error.value.fields["field"] == field


def test_the_average_is_that_of_a_run() -> None:
    """Held positions over a run of requests one after another, step by step, give the mean occupancy."""
    pairs = ((7, 3), (11, 1), (2, 9))
    held = [prompt + step for prompt, output in pairs for step in range(output)]
    assert Workload(samples=pairs).mean_occupancy == pytest.approx(statistics.mean(held))
    assert json.dumps(Workload(samples=pairs).mean_tokens)


def test_no_prompt_is_shorter_than_the_prefix_that_all_begin_with() -> None:
    """A log-normal has a short tail, and a prompt that begins with the prefix cannot lie in it."""
    lengths = Lengths.parse("p50=800,p95=4000,max=16000")
    assert isinstance(lengths, Lengths)
    work = Workload(lengths, 100, 4, shared_prefix_tokens=500, image_tokens=200)
    assert Workload(lengths, 100, 4).smallest_prompt == 1
    assert work.smallest_prompt == 500
    grid = [(step + 0.5) / 8192 for step in range(8192)]
    mean = statistics.fmean(max(300, lengths.quantile(share)) for share in grid) + 200
    assert work.mean_tokens == pytest.approx(mean + 100)
    assert min(prompt for prompt, _, _ in work.pairs()) == 500
    drawn, _ = work.drawn(lambda count: [step / count for step in range(count)], 100)
    assert min(drawn) == 500
