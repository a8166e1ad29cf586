"""What few deployments have, behind one click of the Capacity page: images, adapters, two pools, host memory, part of a GPU."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from planner.model import Model
from ui import capacity_adapters, capacity_apart, capacity_images
from ui.capacity_adapters import Adapters
from ui.capacity_apart import Apart
from ui.capacity_images import Seen
from ui.engine_fields import LABELS, flag
from ui.i18n import t

IN_LINK = (*capacity_images.IN_LINK, *capacity_adapters.IN_LINK, *capacity_apart.IN_LINK)
#: The settings of each engine that ask for host memory, all among its settings on the page.
SETTINGS: dict[str, tuple[str, ...]] = {
    "vllm": ("kv_offloading_size", "swap_space", "cpu_offload_gb", "max_cpu_loras"),
    "sglang": ("enable_hierarchical_cache", "hicache_ratio", "hicache_size"),
    "tensorrt-llm": ("host_cache_size", "max_cpu_loras"),
    "llama.cpp": ("cache_ram",),
}  # fmt: skip


@dataclass(frozen=True)
class Rare:
    """seen: images and the like of a prompt; adapters: of LoRA; apart: the two pools. None where there are none."""

    seen: Seen
    adapters: Adapters | None
    apart: Apart | None


def ask(option: str, model: Model | None) -> Rare:
    """Draw the inputs, open where a link says one of them."""
    said = any(name in st.session_state.link for name in IN_LINK)
    with st.expander(t("capacity.rare"), icon=":material/extension:", key="rare_more", expanded=said):
        found = Rare(capacity_images.ask(model), capacity_adapters.ask(option, model), capacity_apart.ask())
        _host_memory(option)
        st.caption(t("capacity.rare.shared"))
    return found


def _host_memory(option: str) -> None:
    """Say which inputs above ask for host memory, or that there are none."""
    names = SETTINGS.get(option, ())
    if names:
        listed = ", ".join(f"`{flag(option, name)}`" for name in names)
        st.caption(t("capacity.tiers.where", engine=LABELS[option], settings=listed))
    else:
        st.caption(t("capacity.tiers.without", engine=LABELS[option]))
