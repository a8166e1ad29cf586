"""A deployment: a model on an engine, its settings, the GPUs and how they are shared out among ranks, stages and replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from planner.engines import ENGINES, engine
from planner.engines.base import EngineSettings
from planner.errors import EngineRefusal, InputError, shown
from planner.hardware import Gpu, Node, node
from planner.hardware import gpu as find_gpu
from planner.model import Model
from planner.texts import tell
from planner.workload import Workload

#: What each engine calls the GPUs that share a layer, the stages of layers, and the replicas that it runs itself.
PIPELINE = dict.fromkeys(("vllm", "sglang", "tensorrt-llm"), "pipeline_parallel_size")
TENSOR = {**dict.fromkeys(PIPELINE, "tensor_parallel_size"), "tgi": "num_shard"}
DATA = {"vllm": "data_parallel_size", "sglang": "data_parallel_size"}
#: What each engine calls the requests that run at once.
RUNNING = {"vllm": "max_num_seqs", "sglang": "max_running_requests", "tensorrt-llm": "max_batch_size", "llama.cpp": "n_seq_max"}
#: The most GPUs that are taken for a real question.
MOST_GPUS = 4096


@dataclass(frozen=True)
class Deployment:
    """What is planned. tensor x pipeline x replicas = gpus; layer_split: GPUs that llama.cpp or transformers spread layers over.

    given: figures of the budget that the person knows better, by term. cards: each GPU where they differ.
    """

    model: Model
    engine: str
    settings: Any
    gpu: Gpu
    gpus: int = 1
    tensor: int = 1
    pipeline: int = 1
    replicas: int = 1
    layer_split: int = 1
    workload: Workload | None = None
    given: Mapping[str, int] = field(default_factory=dict)
    cards: tuple[Gpu, ...] = ()
    notes: tuple[str, ...] = ()

    def with_split(self, tensor: int, pipeline: int, replicas: int, *notes: str) -> Deployment:
        """The same with these ranks, stages and replicas."""
        update: dict[str, Any] = {}
        for words, value in ((TENSOR, tensor), (PIPELINE, pipeline), (DATA, replicas)):
            if self.engine in words:
                update[words[self.engine]] = value
        found = list(self.notes)
        if replicas > 1 and self.engine not in DATA:
            found.append(tell("servers", replicas=replicas, gpus=tensor * pipeline, engine=self.engine))
        return replace(
            self, settings=changed(self.settings, **update), tensor=tensor, pipeline=pipeline, replicas=replicas,
            gpus=tensor * pipeline * replicas, notes=(*found, *notes),
        )  # fmt: skip

    def splits(self) -> Iterator[tuple[int, int, int]]:
        """Every (tensor, pipeline, replicas) of these GPUs that the engine has settings for."""
        if self.engine not in TENSOR:
            yield 1, 1, 1
            return
        for tensor in divisors(self.gpus):
            for pipeline in divisors(self.gpus // tensor) if self.engine in PIPELINE else (1,):
                yield tensor, pipeline, self.gpus // tensor // pipeline


def divisors(number: int) -> tuple[int, ...]:
    """The divisors, largest first."""
    return tuple(value for value in range(number, 0, -1) if number % value == 0)


def changed(settings: Any, **update: Any) -> Any:
    """The settings with other values, checked as if they had been given."""
    kept = {name: getattr(settings, name) for name in settings.model_fields_set}
    return type(settings)(**{**kept, **update})


def deployment(
    model: Model,
    engine_name: str,
    settings: EngineSettings | Mapping[str, Any] | None,
    gpu: str | Gpu | Node,
    gpus: int,
    workload: Workload | None,
    given: Mapping[str, int] | None,
) -> tuple[Deployment, bool]:
    """The deployment that is asked for, and whether its split was said; where not, it is not chosen yet.

    gpus left at 1 means as many as the settings' own split takes. Errors: InputError.
    """
    name = engine_name if isinstance(engine_name, str) else getattr(engine_name, "name", "")
    own = engine(name).Settings
    if settings is None:
        made: Any = own(front_end="server") if name == "llama.cpp" else own()
    elif isinstance(settings, Mapping):
        made = own(**settings)
    elif isinstance(settings, own):
        made = settings
    else:
        raise InputError(f"{name} takes its own Settings, not {shown(settings)}", field="settings")
    if workload is not None and not isinstance(workload, Workload):
        raise InputError(f"workload is {shown(workload)}; it is a planner.Workload", field="workload")
    if isinstance(gpus, bool) or not isinstance(gpus, int) or not 1 <= gpus <= MOST_GPUS:
        raise InputError(f"gpus is {shown(gpus)}; it must be a whole number from 1 to {MOST_GPUS:,}", field="gpus")
    cards = _cards(gpu, gpus)
    kinds = {card.id: card for card in cards}
    smallest = min(kinds.values(), key=lambda card: card.usable_bytes)
    if len(kinds) > 1 and name not in ("llama.cpp", "transformers"):
        raise EngineRefusal(f"{name} needs GPUs of one kind; only llama.cpp and transformers spread layers over {len(kinds)}",
                            engine=name)  # fmt: skip
    base = Deployment(
        model, name, made, smallest, len(cards), workload=workload, given=dict(given or {}), cards=cards if len(kinds) > 1 else ()
    )
    return _said_split(base)


def _cards(gpu: str | Gpu | Node, gpus: int) -> tuple[Gpu, ...]:
    if isinstance(gpu, Gpu):
        return (gpu,) * gpus
    found = gpu if isinstance(gpu, Node) else _named(gpu)
    if gpus == 1 or len(found.gpus) == gpus:
        return found.gpus
    if len(found.gpus) == 1:
        return found.gpus * gpus
    raise InputError(f"{found.name} has {len(found.gpus)} GPUs, and gpus says {gpus}", field="gpus")


def _named(gpu: object) -> Node:
    """A single accelerator by its own name first, else a node by its words ("8xh100", an instance)."""
    if not isinstance(gpu, str):
        raise InputError(f"gpu is {shown(gpu)}; it is a name, a Gpu or a Node", field="gpu")
    try:
        card = find_gpu(gpu)
    except InputError as error:
        try:
            return node(gpu)
        except InputError as other:
            raise (other if any(sign in gpu.lower() for sign in ("x", "+", ".")) else error) from None
    return Node((card,), card.name, card.source)


def _said_split(base: Deployment) -> tuple[Deployment, bool]:
    """The split that the settings name, with the GPUs that are left as replicas."""
    if base.engine not in TENSOR:
        return replace(base, layer_split=base.gpus), True
    said = base.settings.model_fields_set
    words = [table[base.engine] for table in (TENSOR, PIPELINE, DATA) if base.engine in table]
    tensor = getattr(base.settings, TENSOR[base.engine])
    pipeline = getattr(base.settings, PIPELINE[base.engine]) if base.engine in PIPELINE else 1
    replicas = getattr(base.settings, DATA[base.engine]) if base.engine in DATA else 1
    if shares_ranks(base.settings):
        return _shared_ranks(base, tensor, pipeline, replicas)
    if not any(word in said for word in words):
        return base, base.gpus == 1
    size = tensor * pipeline
    if base.gpus == 1 and size * replicas > 1:
        base = replace(base, gpus=size * replicas)
    if TENSOR[base.engine] not in said and base.gpus % (pipeline * replicas) == 0:
        tensor = base.gpus // (pipeline * replicas)
    elif DATA.get(base.engine) not in said and base.gpus % size == 0:
        replicas = base.gpus // size
    if tensor * pipeline * replicas != base.gpus:
        split = f"{tensor} ranks x {pipeline} stages x {replicas} replicas"
        raise InputError(f"{base.gpus} GPUs are not what {split} take ({tensor * pipeline * replicas})", field="gpus")
    return base.with_split(tensor, pipeline, replicas), True


def shares_ranks(settings: Any) -> bool:
    """Whether attention replicas share the tensor-parallel ranks: SGLang's DP attention, TensorRT-LLM's attention DP."""
    return bool(getattr(settings, "enable_dp_attention", False) or getattr(settings, "enable_attention_dp", False))


def _shared_ranks(base: Deployment, tensor: int, pipeline: int, replicas: int) -> tuple[Deployment, bool]:
    size = tensor * pipeline
    if base.gpus not in (1, size):
        raise InputError(f"with attention replicas the GPUs are the {size} of its ranks, and gpus says {base.gpus}", field="gpus")
    inside = replicas if base.engine in DATA else tensor
    return replace(base, gpus=size, tensor=tensor, pipeline=pipeline, replicas=inside), True


__all__ = ["DATA", "ENGINES", "PIPELINE", "RUNNING", "TENSOR", "Deployment", "changed", "deployment", "divisors", "shares_ranks"]
