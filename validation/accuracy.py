"""How near the memory budget comes to what vLLM printed: our KV memory beside the log's, fitted without the row's model.

Rows are start-ups that printed the size of their weights and of their pool, from public logs and published runs
(tests/golden/budget.yaml). Each is planned with the device's total and the share that it states. Its model's other rows are
left out of the fit that it is planned with.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from model_configs import read as read_model
from planner.budget import Budget, budget
from planner.budget_engines import vllm_load
from planner.budget_terms import activation_parts, row_at, runtime
from planner.engines import vllm
from planner.engines.costs import generation
from planner.engines.vllm_tables import rules_of
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.model import Model
from planner.units import GIB

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/budget.yaml"
#: From how many runs on the furthest one at each end does not widen a range.
SET_ASIDE = 5
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One start-up: bytes of the pool as printed and as planned, with the printed weights or with our own."""

    row: Row
    printed: int
    ours: int
    low: int
    high: int
    weights: int | None = None

    @property
    def error(self) -> float:
        """(ours - printed) / printed."""
        return self.ours / self.printed - 1

    @property
    def inside(self) -> bool:
        return self.low <= self.printed <= self.high


@dataclass(frozen=True)
class Accuracy:
    """stated: rows whose share of the GPU is printed; presumed: where it is the release's default; own: with our own weights."""

    stated: tuple[Line, ...]
    presumed: tuple[Line, ...]
    own: tuple[Line, ...]
    left_out: Mapping[str, str]


@cache
def golden() -> Mapping[str, Any]:
    """The content of tests/golden/budget.yaml."""
    content: dict[str, Any] = yaml.safe_load(GOLDEN.read_text("utf-8"))
    return content


@cache
def _model(name: str) -> Model:
    return read_model(f"catalogue:{name}")


def settings_of(row: Row) -> vllm.Settings:
    """The settings that a row states."""
    names = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "length": "max_model_len", "requests": "max_num_seqs",
             "tokens": "max_num_batched_tokens", "text": "language_model_only",
             "share": "gpu_memory_utilization", "dtype": "dtype"}  # fmt: skip
    given = {name: row[key] for key, name in names.items() if key in row}
    return vllm.Settings(version=str(row["version"]), **given)


def given_of(row: Row, own_weights: bool) -> dict[str, int]:
    """What is known of a row beforehand: the device's total, whether graphs are off, and the weights unless ours are tried."""
    found = {} if own_weights else {"weights": int(row["weights"] * GIB)}
    if "total" in row:
        found["device"] = int(row["total"] * GIB)
    if row.get("eager"):
        found["cuda graphs"] = 0
    return found


def plan(row: Row, constants: Mapping[str, Any] | None = None, own_weights: bool = False) -> Budget:
    """Our budget of a row, with a fit of the constants."""
    known, gpu = given_of(row, own_weights), find_gpu(row["gpu"])
    return budget(_model(row["model"]), "vllm", settings_of(row), gpu, given=known, constants=constants)


@dataclass(frozen=True)
class Sample:
    """What a row says of the constants: the rows of runtime.yaml that hold for it, parts of its peak, and what was printed."""

    row: Row
    activation: int
    non_torch: int
    parts: tuple[float, float, float]
    rest: float

@cache
def samples() -> tuple[Sample, ...]:
    """Every row as a sample of the fit."""
    return tuple(_sample(row) for row in golden()["rows"])


def _sample(row: Row) -> Sample:
    settings, gpu, model = settings_of(row), find_gpu(row["gpu"]), _model(row["model"])
    facts = runtime()["vllm"]
    load = vllm_load(model, settings, gpu, facts)
    place: dict[str, Any] = {"version": settings.version, "generation": generation(gpu)}
    rules = row_at(facts["activation"], **place)
    outside = row_at(facts["non_torch"], ranks=load.ranks, **place)
    return Sample(
        row, facts["activation"].index(rules), facts["non_torch"].index(outside), activation_parts(model, load), _rest(row, gpu),
    )


def _rest(row: Row, gpu: Gpu) -> float:
    """Bytes that are neither weights nor pool: share x total - weights - pool."""
    total = row.get("total", gpu.usable_bytes / GIB)
    share = row.get("share") or rules_of(str(row["version"])).gpu_memory_utilization
    return float(total * share - row["weights"] - row["kv"]) * GIB


def calibrate(without: str | None = None) -> dict[str, Any]:
    """Another fit of the constants of vLLM, from all rows but those of one model.

    Per row of runtime.yaml, of the rows that it holds for: non-torch is the median of the printed ones; copies of the logits
    and the factor of the forward pass, where three rows say so, the median of (printed or implied peak - experts) / part over the
    rows that the part decides; low and high of the peak by the ends of true / planned. A class of which no row is left has the
    figure of the class before. Rows whose share is presumed are not fitted to.
    """
    fit = copy.deepcopy(dict(runtime()))
    facts, known = fit["vllm"], [s for s in samples() if s.row["model"] != without and "share" in s.row]
    for index, row in enumerate(facts["non_torch"]):
        seen = [s.row["non_torch"] for s in known if s.non_torch == index and "non_torch" in s.row]
        row["value"] = round(statistics.median(seen), 2) if seen else facts["non_torch"][index - 1]["value"]
    for index, row in enumerate(facts["activation"]):
        own = [s for s in known if s.activation == index]
        for part, name in ((0, "logits"), (1, "forward")):
            seen = [(_peak(s, facts) - s.parts[2] * (row["experts"] == "kept" or part == 1)) / s.parts[part]
                    for s in own if _decides(s, row) == part and s.parts[part]]  # fmt: skip
            if len(seen) > 2:
                row[name] = round(max(1.0, statistics.median(seen)), 2)
        ratios = sorted(_peak(s, facts) / _planned(s, row) for s in own)
        if len(ratios) > 2:
            row["low"], row["high"] = _ends(ratios)
    return fit


def _ends(ratios: Sequence[float]) -> tuple[float, float]:
    """The ends of a range: the second least and second largest of more than SET_ASIDE ratios, moved out by one part in n of
    themselves, because n runs do not show the ends of what is possible; never inside 0.8 .. 1.25."""
    cut, count = int(len(ratios) > SET_ASIDE), len(ratios)
    low, high = ratios[cut] * (1 - 1 / count), ratios[-1 - cut] * (1 + 1 / count)
    return round(max(0.0, min(0.8, low)), 2), round(max(1.25, high), 2)


def _peak(sample: Sample, facts: Mapping[str, Any]) -> float:
    """The activation peak as printed, else what the other terms leave of the rest."""
    if "activation" in sample.row:
        return float(sample.row["activation"] * GIB)
    graphs = 0.0
    if rules_of(str(sample.row["version"])).cudagraph_estimate and not sample.row.get("eager"):
        graphs = sample.row.get("graphs", facts["cuda_graphs"][-1]["value"])
    return float(sample.rest - (graphs + facts["non_torch"][sample.non_torch]["value"]) * GIB)


def _decides(sample: Sample, rules: Mapping[str, Any]) -> int:
    logits, forward, experts = sample.parts
    later = 0.0 if rules["experts"] == "kept" else experts
    return 0 if rules["logits"] * logits > rules["forward"] * forward + later else 1


def _planned(sample: Sample, rules: Mapping[str, Any]) -> float:
    logits, forward, experts = sample.parts
    if rules["experts"] == "kept":
        return float(max(rules["logits"] * logits, rules["forward"] * forward) + experts)
    return float(max(rules["logits"] * logits, rules["forward"] * forward + experts))


def _line(row: Row, own: bool) -> Line:
    made = plan(row, calibrate(row["model"]), own)
    weights = made.term("weights")
    return Line(row, int(row["kv"] * GIB), made.kv_bytes, made.kv_low, made.kv_high, weights.bytes if own and weights else None)


@cache
def measure(truth: Path | None = None) -> Accuracy:
    """Every row planned with constants fitted without its model. truth: not read; the rows are in tests/golden."""
    rows = golden()["rows"]
    return Accuracy(
        tuple(_line(row, False) for row in rows if "share" in row),
        tuple(_line(row, False) for row in rows if "share" not in row),
        tuple(_line(row, True) for row in rows if row.get("own") and "share" in row),
        golden()["left_out"],
    )


def figures(lines: Iterable[Line]) -> dict[str, Any]:
    """n, mean, median and worst of the errors' sizes, the mean as it stands, and how often truth lies outside the range."""
    found = list(lines)
    sizes = [abs(line.error) for line in found]
    worst = max(found, key=lambda line: abs(line.error))
    return {
        "n": len(found), "mean": statistics.mean(sizes), "median": statistics.median(sizes), "worst": worst.error,
        "worst_id": worst.row["id"], "bias": statistics.mean(line.error for line in found),
        "outside": sum(not line.inside for line in found),
    }  # fmt: skip


def summary(accuracy: Accuracy) -> str:
    """One sentence for README."""
    got = figures(accuracy.stated)
    return (f"KV memory of {got['n']} vLLM start-ups whose share of the GPU is known, fitted without the row's model: "
            f"mean error {got['mean']:.1%}, median {got['median']:.1%}, worst {got['worst']:+.1%}; "
            f"{got['outside']} of {got['n']} outside the range.")  # fmt: skip


def document(accuracy: Accuracy) -> str:
    """docs/ACCURACY.md: figures of each set of rows, then row by row."""
    sets: tuple[tuple[str, tuple[Line, ...]], ...] = (
        ("share stated, weights as printed", accuracy.stated), ("share stated, our own weights", accuracy.own),
        ("share presumed to be the default, weights as printed", accuracy.presumed),
    )  # fmt: skip
    text = ["| rows | n | mean | median | worst | bias | outside the range |", "|---|---|---|---|---|---|---|"]
    for name, lines in sets:
        got = figures(lines)
        text.append(f"| {name} | {got['n']} | {got['mean']:.1%} | {got['median']:.1%} | {got['worst']:+.1%} ({got['worst_id']}) "
                    f"| {got['bias']:+.1%} | {got['outside']} ({got['outside'] / got['n']:.0%}) |")  # fmt: skip
    for name, lines in sets:
        text += ["", f"### {name[0].upper()}{name[1:]}", "", _HEAD, "|---|---|---|---|---|---|---|---|"]
        text += [_written(line) for line in lines]
    text += ["", "### Left out", "", "| row | why |", "|---|---|"]
    return "\n".join([*text, *(f"| {name} | {why} |" for name, why in accuracy.left_out.items())])


_HEAD = "| row | model | vLLM | GPU | weights GiB | printed GiB | ours GiB (range) | error |"


def _written(line: Line) -> str:
    row, ranks = line.row, "".join(f" {key}{line.row[key]}" for key in ("tp", "pp") if key in line.row)
    weights = f"{row['weights']:.2f}" + (f", ours {line.weights / GIB:.2f}" if line.weights is not None else "")
    own = f"{line.ours / GIB:.2f} ({line.low / GIB:.2f} to {line.high / GIB:.2f})" + ("" if line.inside else ", outside")
    return (f"| {row['id']} | {row['model']} | {row['version']} | {row['gpu']}{ranks} | {weights} | {row['kv']:.2f} | {own} | "
            f"{line.error:+.1%} |")  # fmt: skip
