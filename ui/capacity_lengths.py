"""What the requests of the Capacity page look like: how long, how they vary, what they share, and how full the cache is taken."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner.errors import InputError
from planner.workload import Workload
from planner.workload_lengths import Lengths
from ui import capacity_upload, inputs
from ui.i18n import t
from ui.link import bind

DEFAULT_REQUESTS, DEFAULT_PROMPT, DEFAULT_OUTPUT = 16, 7_168, 1_024
#: How lengths are said. A link carries these words.
FIXED, LOGNORMAL, PERCENTILES, OBSERVED = MODES = ("fixed", "log-normal", "percentiles", "observed")
OCCUPANCIES = ("worst", "typical")
#: Link parameters of this file's inputs beside those in sight; each is the key of its input.
IN_LINK = (
    "vary", "prompt_p95", "prompt_max", "output_p95", "output_max", "prompts", "outputs", "shared", "images", "draft", "beams",
    "occupancy",
)  # fmt: skip
#: The 95th percentiles that a log-normal starts from, and percentiles to begin with.
_P95 = {"prompt": 20_480, "output": 3_072}
_TEXTS = {"prompts": "p50=7168,p90=16384,p99=28672,max=32768", "outputs": "p50=1024,p90=3072,p99=6144,max=8192"}
_MAX_BEAMS = 64


@dataclass(frozen=True)
class Requests:
    """A workload, and its lengths as flags of `python -m planner plan`."""

    workload: Workload
    lengths: str = ""


def ask(grid: DeltaGenerator) -> Callable[[], Requests | None]:
    """Draw the inputs, the common ones into `grid`. The requests are a function, because what is wrong with them is told where
    the question is put; None while a file is to come. Errors of the function: InputError.
    """
    state, link = st.session_state, st.session_state.link
    full = bool(state.get("fill", link.get("fill", "") == "true"))
    mode = state.get("vary") or link.get("vary", FIXED)
    mode = mode if mode in MODES and not full else FIXED
    requests = grid.number_input(
        t("capacity.requests"), 1, inputs.MAX_REQUESTS, DEFAULT_REQUESTS, step=1, key="load", bind=bind("load"),
        help=t("capacity.requests.help"),
    )  # fmt: skip
    median = ".median" if mode == LOGNORMAL else ""
    counts = {
        name: grid.number_input(
            t(f"capacity.input.{name}{median}"), 0, inputs.MAX_TOKENS, default, step=step, key=name, bind=bind(name),
            help=t(f"capacity.input.{name}.help"), disabled=full or mode in (PERCENTILES, OBSERVED),
        )
        for name, default, step in (("prompt", DEFAULT_PROMPT, 1_024), ("output", DEFAULT_OUTPUT, 256))
    }  # fmt: skip
    with grid.container(vertical_alignment="bottom", height="stretch"):
        full = st.toggle(t("capacity.input.fill"), key="fill", bind="query-params", help=t("capacity.input.fill.help"))
    said = any(name in link for name in IN_LINK)
    with st.expander(t("capacity.vary"), icon=":material/tune:", key="vary_more", expanded=said):
        mode, spoken = _lengths(full)
        shared = _shared()

    def made() -> Requests | None:
        common: dict[str, Any] = {"requests": int(requests or 1), **shared}
        if full:
            return Requests(Workload(**{**common, "occupancy": None}))
        if mode == OBSERVED:
            found = capacity_upload.read()
            return found and Requests(Workload(samples=found.pairs, **common), f"--lengths {shlex.quote(found.name)}")
        words = spoken(int(counts["prompt"] or 0), int(counts["output"] or 0))
        prompt, output = (_parsed(name, word) for name, word in zip(counts, words, strict=True))
        flags = f"--prompt {shlex.quote(words[0])}" + ("" if output == 0 else f" --output {shlex.quote(words[1])}")
        return Requests(Workload(prompt, output, **common), flags)

    return made


def _lengths(full: bool) -> tuple[str, Callable[[int, int], tuple[str, str]]]:
    """How lengths vary, and what makes the shell's words for prompt and output of the two counts in sight."""
    mode = st.segmented_control(
        t("capacity.vary.how"), MODES, default=FIXED, key="vary", bind="query-params", required=True, disabled=full,
        help=t("capacity.vary.how.help"),
    )  # fmt: skip
    if mode == OBSERVED and not full:
        capacity_upload.ask()
    elif mode == PERCENTILES and not full:
        texts = _texts()
        return mode, lambda prompt, output: texts
    elif mode == LOGNORMAL and not full:
        ends = _ends()
        return mode, lambda prompt, output: (_lognormal("prompt", prompt, ends), _lognormal("output", output, ends))
    return mode or FIXED, lambda prompt, output: (str(prompt), str(output))


def _texts() -> tuple[str, str]:
    """Prompt and answer as percentiles."""
    grid = st.grid(2, min_column_width=260)
    found = [
        grid.text_input(
            t(f"capacity.input.{name}"), default, key=name, bind="query-params", max_chars=200,
            help=t("capacity.input.percentiles.help"),
        )
        for name, default in _TEXTS.items()
    ]  # fmt: skip
    return (found[0] or "").replace(" ", ""), (found[1] or "").replace(" ", "")


def _ends() -> dict[str, int | None]:
    """The 95th percentile of prompt and answer, and the longest of each where there is one."""
    grid, found = st.grid(4, min_column_width=130), dict[str, int | None]()
    for name, p95 in _P95.items():
        for word, default in (("p95", p95), ("max", None)):
            key = f"{name}_{word}"
            found[key] = grid.number_input(
                t(f"capacity.input.{key}"), 1, inputs.MAX_TOKENS, default, step=1_024, key=key, bind=bind(key),
                help=t(f"capacity.input.{word}.help"), placeholder=t("capacity.input.max.none"),
            )  # fmt: skip
    return found


def _lognormal(name: str, median: int, ends: dict[str, int | None]) -> str:
    """The median with its ends; a count where it is none at all, which has no distribution."""
    p95, longest = ends[f"{name}_p95"], ends[f"{name}_max"]
    end = "" if longest is None else f",max={longest}"
    return f"p50={median},p95={p95 or median}{end}" if median else "0"


def _parsed(name: str, words: str) -> int | Lengths:
    """By the shell's own reader. Errors: InputError that says which of the two is wrong."""
    try:
        return Lengths.parse(words, name)
    except InputError as problem:
        said = problem.message
        raise InputError(said if said.startswith(name) else f"{name}: {said}", field=name) from None


def _shared() -> dict[str, Any]:
    """What requests have in common and hold beside their text."""
    grid = st.grid(5, min_column_width=130)
    found: dict[str, Any] = {}
    for key, field, most, step in (
        ("shared", "shared_prefix_tokens", inputs.MAX_TOKENS, 256), ("images", "image_tokens", inputs.MAX_TOKENS, 256),
        ("draft", "speculative_tokens", 1_024, 1),
    ):  # fmt: skip
        value = grid.number_input(
            t(f"capacity.input.{key}"), 0, most, 0, step=step, key=key, bind=bind(key), help=t(f"capacity.input.{key}.help")
        )
        found[field] = int(value or 0)
    beams = grid.number_input(
        t("capacity.input.beams"), 1, _MAX_BEAMS, 1, step=1, key="beams", bind=bind("beams"), help=t("capacity.input.beams.help")
    )
    found["beams"] = int(beams or 1)
    found["occupancy"] = grid.segmented_control(
        t("capacity.input.occupancy"), OCCUPANCIES, key="occupancy", bind="query-params", help=t("capacity.input.occupancy.help")
    )
    return found
