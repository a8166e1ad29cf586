"""What the Capacity page asks for: the model, its engine, the GPUs, and what they are to hold.

Model and engine settings are the Plan page's own inputs, so both pages speak of the same ones; the rest has keys of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from planner import hardware
from planner.capacity_deploy import MOST_GPUS, changed
from planner.capacity_weights import GGUF_BITS, as_gguf
from planner.engines.base import EngineSettings
from planner.errors import PlannerError
from planner.hardware import Node
from planner.model import Model
from planner.workload import Workload
from ui import (
    capacity_adapters,
    capacity_given,
    capacity_lengths,
    capacity_rare,
    engine_input,
    inputs,
    messages,
    model_input,
    presets,
)
from ui.capacity_adapters import Adapters
from ui.capacity_apart import Apart
from ui.capacity_images import Seen
from ui.engine_fields import ARCHITECTURE, LABELS, OPTIONS, key
from ui.i18n import t
from ui.link import bind

DEFAULT_MODEL = "meta-llama/Llama-3.1-8B"
DEFAULT_GPU = "h100-sxm"
ENGINES = tuple(option for option in OPTIONS if option != ARCHITECTURE)
MAX_PRICE = 1_000_000.0
#: How weights are stored when nothing is said: as the checkpoint has them.
AS_IS = "checkpoint"
#: Link parameters of this page alone; each is the key of the input that it fills.
IN_LINK = (
    "server", "node", "gpus", "load", "prompt", "output", "fill", *capacity_lengths.IN_LINK, *capacity_given.IN_LINK, "price",
    "gguf", "vllm.data_parallel_size", *capacity_rare.IN_LINK,
)  # fmt: skip
SHARED = (*model_input.IN_LINK, "encoder")
#: vLLM's replicas, which move nothing on the Plan page and so are no setting there.
REPLICAS = key("vllm", "data_parallel_size")
_FRONT_END = key("llama.cpp", "front_end")


@dataclass(frozen=True)
class Asked:
    """A whole question. node: the GPUs, and `node_argument` how a shell names them; gpus: 1 where the node has several.

    argument: how a shell names the model; lengths: how it says those of the requests; gguf: the storage of the weights, empty for
    the checkpoint's own; given: figures of the budget that the person knows, as amounts. seen: images and the like of a prompt,
    whose tokens are in the workload; adapters: of LoRA, which are in the settings where the engine has such; apart: two pools.
    """

    model: Model
    argument: str
    option: str
    settings: EngineSettings
    node: Node
    node_argument: str
    gpus: int
    workload: Workload
    lengths: str = ""
    price: float | None = None
    gguf: str = ""
    given: dict[str, str] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    adapters: Adapters | None = None
    apart: Apart | None = None

    @property
    def given_bytes(self) -> dict[str, int]:
        return {**(self.adapters.given if self.adapters else {}), **capacity_given.sizes(self.given)}

    @property
    def engine(self) -> str:
        return engine_input.engine_of(self.option).name


def prepare() -> None:
    """llama.cpp's front end, which the Plan page draws with another default, where neither a link nor a person has said any."""
    if _FRONT_END not in st.session_state and _FRONT_END not in st.session_state.link:
        st.session_state[_FRONT_END] = "server"


def ask() -> Asked | None:
    """Draw the inputs. None where something is missing or wrong, which has been said then."""
    chosen = model_input.choose(DEFAULT_MODEL)
    presets.choose("capacity")
    grid = st.grid(4, min_column_width=150)
    gpu_slot, count_slot, wrong = grid.container(), grid.container(), st.container()
    option = grid.selectbox(
        t("capacity.engine"), ENGINES, index=ENGINES.index("vllm"), key="server", bind="query-params",
        help=t("capacity.engine.help"),
    )  # fmt: skip
    option = option or "vllm"
    version = engine_input.choose_version(option, grid)
    wanted = capacity_lengths.ask(st.grid(4, min_column_width=150))
    choice = engine_input.choose_settings(option, version)
    given = capacity_given.ask()
    rare = capacity_rare.ask(option, chosen.model)
    seen, adapters = rare.seen, rare.adapters
    more = st.grid(4, min_column_width=150)
    gguf = _gguf(more) if option in ("llama.cpp", "ollama") else ""
    replicas = _replicas(more) if option == "vllm" else 1
    price = more.number_input(
        t("capacity.price"), 0.0, MAX_PRICE, None, step=0.1, key="price", bind=bind("price"), help=t("capacity.price.help"),
        placeholder=t("capacity.price.none"),
    )  # fmt: skip
    # An audio or image that the decoder attends to says the positions itself.
    encoder = 0 if seen.encoder_positions else inputs.encoder_positions(chosen.model)
    with gpu_slot:
        found = _node(wrong)
    with count_slot:
        gpus = _count(found[0] if found else None)
    if choice.problem is not None:
        messages.error(choice.problem, t("error.settings", engine=LABELS[option]))
    if seen.problem is not None:
        messages.error(seen.problem, t("capacity.media.wrong"))
    if chosen.model is None or choice.settings is None or found is None or seen.problem is not None:
        return None
    try:
        settings = _settings(option, choice.settings, replicas)
        requests = wanted()
        model = as_gguf(chosen.model, gguf) if gguf else chosen.model
        if adapters is not None:
            settings, adapters = capacity_adapters.applied(adapters, model, choice.engine.name, settings)
    except PlannerError as problem:
        messages.error(problem)
        return None
    if requests is None:
        return None
    workload = replace(
        requests.workload, encoder_tokens=encoder + seen.encoder_positions,
        image_tokens=requests.workload.image_tokens + seen.prompt_tokens,
    )  # fmt: skip
    return Asked(
        model, chosen.argument, option, settings, *found, gpus, workload, requests.lengths, price, gguf, given, seen, adapters,
        rare.apart,
    )  # fmt: skip


def _settings(option: str, settings: EngineSettings, replicas: int) -> EngineSettings:
    """With how llama.cpp is started, also where that is its own default, and vLLM's replicas, which this page alone asks for."""
    update: dict[str, object] = {}
    if option == "llama.cpp" and "front_end" not in settings.model_fields_set:
        update["front_end"] = getattr(settings, "front_end", "server")
    if replicas > 1:
        update["data_parallel_size"] = replicas
    made: EngineSettings = changed(settings, **update) if update else settings
    return made


def _gguf(grid: DeltaGenerator) -> str:
    kinds = (AS_IS, *GGUF_BITS)
    kind = grid.selectbox(t("capacity.gguf"), kinds, key="gguf", bind="query-params", help=t("capacity.gguf.help"))
    return "" if kind in (None, AS_IS) else str(kind)


def _replicas(grid: DeltaGenerator) -> int:
    value = grid.number_input(
        t("capacity.replicas"), 1, MOST_GPUS, 1, step=1, key=REPLICAS, bind=bind(REPLICAS), help=t("capacity.replicas.help")
    )
    return int(value or 1)


def _node(wrong: DeltaGenerator) -> tuple[Node, str] | None:
    """The GPUs and how a shell names them; a message in `wrong` where they are not known."""
    names = [gpu.name for gpu in hardware.gpus()]
    text = st.selectbox(
        t("capacity.node"), names, index=names.index(hardware.gpu(DEFAULT_GPU).name), key="node", bind="query-params",
        accept_new_options=True, on_change=_name_node, help=t("capacity.node.help"),
    )  # fmt: skip
    try:
        return named(str(text))
    except PlannerError as problem:
        with wrong:
            messages.error(problem, t("error.gpu"))
        return None


def named(text: str) -> tuple[Node, str]:
    """The GPUs of a display name, or of what `hardware.node` knows. Errors: InputError."""
    card = next((gpu for gpu in hardware.gpus() if gpu.name == text), None)
    if card is not None:
        return Node((card,), card.name, card.source), card.id
    node = hardware.node(text[:100])
    if len(node.gpus) == 1:
        only = node.gpus[0]
        return node, text.replace(" ", "") if only.id == "custom" else text.strip() if node.instances else only.id
    return node, text.strip()


def _name_node() -> None:
    st.session_state.node = inputs.gpu_name(str(st.session_state.node))


def _count(node: Node | None) -> int:
    """How many GPUs; a node of several says so itself."""
    if node is not None and len(node.gpus) > 1:
        st.text_input(t("capacity.gpus"), f"{len(node.gpus)}", disabled=True, help=t("capacity.gpus.node"))
        return 1
    value = st.number_input(
        t("capacity.gpus"), 1, MOST_GPUS, 1, step=1, key="gpus", bind=bind("gpus"), help=t("capacity.gpus.help")
    )
    return int(value or 1)
