"""LoRA adapters on the Capacity page: how many at once, of which rank, on which layers, in each engine's own settings."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass, field

import streamlit as st

from planner.cli_share import shared
from planner.engines.base import EngineSettings
from planner.errors import PlannerError
from planner.lora import adapter_parameters
from planner.lora_engines import RULES
from planner.model import Model
from ui import format as fmt
from ui.engine_fields import LABELS, engine_of
from ui.i18n import t
from ui.link import bind

IN_LINK = ("loras", "lora_rank", "lora_modules")
DEFAULT_RANK = 16
_MOST, _MOST_RANK = 4_096, 4_096
#: Settings that the shell's flags stand for, whatever the engine calls them.
WORDS = ("enable_lora", "max_loras", "max_loras_per_batch", "max_lora_rank", "lora_target_modules")


@dataclass(frozen=True)
class Adapters:
    """`count` adapters of up to `rank` on `modules`, every linear layer where none are named. given: their bytes, where the
    engine has no setting for them."""

    count: int
    rank: int = DEFAULT_RANK
    modules: tuple[str, ...] = ()
    given: dict[str, int] = field(default_factory=dict)

    @property
    def flags(self) -> list[str]:
        named = [f"--lora-modules {shlex.quote(','.join(self.modules))}"] if self.modules else []
        return [f"--loras {self.count}", f"--lora-rank {self.rank}", *named]


def ask(option: str, model: Model | None) -> Adapters | None:
    """Draw the inputs; None where no adapters are asked for."""
    grid = st.grid(3, min_column_width=180)
    count = grid.number_input(
        t("capacity.lora.count"), 0, _MOST, 0, step=1, key="loras", bind=bind("loras"), help=t("capacity.lora.count.help")
    )
    rank = grid.number_input(
        t("capacity.lora.rank"), 1, _MOST_RANK, DEFAULT_RANK, step=8, key="lora_rank", bind=bind("lora_rank"),
        help=t("capacity.lora.rank.help"), disabled=not count,
    )  # fmt: skip
    text = grid.text_input(
        t("capacity.lora.modules"), key="lora_modules", bind="query-params", max_chars=200, disabled=not count,
        placeholder=t("capacity.lora.modules.all"), help=t("capacity.lora.modules.help"),
    )  # fmt: skip
    if not count:
        return None
    modules = tuple(name for name in (text or "").replace(",", " ").split() if name)
    found = Adapters(int(count), int(rank or DEFAULT_RANK), modules)
    st.caption(" ".join((*_size(found, model), _how(option))))
    return found


def applied(found: Adapters, model: Model, engine: str, settings: EngineSettings) -> tuple[EngineSettings, Adapters]:
    """The settings that keep the adapters ready, and the adapters with their bytes where there are no such settings: what the
    shell makes of the same flags.

    Errors: InputError for modules that the model does not have, and for layers that are not known.
    """
    given = dict[str, int]()
    words = argparse.Namespace(
        engine=engine, used=None, loras=found.count, lora_rank=found.rank, lora_modules=",".join(found.modules)
    )
    made = shared(model, settings, given, words)
    return made, Adapters(found.count, found.rank, found.modules, given)


def _size(found: Adapters, model: Model | None) -> tuple[str, ...]:
    """How large one adapter is; nothing where that cannot be said, which the answer tells then."""
    if model is None:
        return ()
    try:
        count = adapter_parameters(model, found.rank, found.modules or None)
    except PlannerError:
        return ()
    return (t("capacity.lora.one", rank=found.rank, size=fmt.size(2 * count), parameters=f"{count:,}"),)


def _how(option: str) -> str:
    """What the engine makes of them."""
    known = engine_of(option).name in RULES
    return t("capacity.lora.slots" if known else "capacity.lora.whole", engine=LABELS[option])
