"""Which parameters a token really uses: mixtures of experts, embeddings that are only looked up, towers that stand aside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner.dtypes import storage_format
from planner.errors import InputError
from planner.latency_efficiency import Range, factor, table
from planner.model import Model
from planner.weights import WeightItem

#: Items of the weights that generation of text does not read.
ASIDE = ("vision tower", "audio tower", "projector", "encoder")


@dataclass(frozen=True)
class Experts:
    """Routed experts: `layers` layers of `count` experts with `params` parameters each, `chosen` of them for each token."""

    layers: int
    count: int
    chosen: Range
    params: int

    @property
    def total(self) -> int:
        return self.layers * self.count * self.params


@dataclass(frozen=True)
class Active:
    """What generation uses. `always`: parameters that every token passes through; `experts`: None for a dense model.

    stored_bytes: of both. expert_bytes: of the experts among them, a range where the config does not say which part is packed.
    head: parameters of the output head, which only tokens whose successor is asked for pass through. unknown: why the experts
    could not be told from the rest, so that the range is from one to all; None where they could.
    """

    always: Range
    stored_bytes: Range
    experts: Experts | None
    expert_bytes: Range
    bits_per_parameter: float
    head: int = 0
    unknown: str | None = None

    @property
    def params(self) -> Range:
        """Parameters that one token passes through: always + layers x chosen x parameters of an expert."""
        if self.experts is None:
            return self.always
        each = self.experts.layers * self.experts.params
        return self.always + self.experts.chosen * each

    def bytes_read(self, tokens: int) -> Range:
        """Weight bytes that a step of `tokens` tokens reads: everything dense once, and the experts that any token chose.

        distinct experts = n (1 - (1 - k / n)^tokens), n being the experts in use: all of them under even routing, which
        touches most, or the share `experts_in_use` of them.
        """
        if self.experts is None:
            return self.stored_bytes
        count, chosen, use = self.experts.count, self.experts.chosen, factor("experts_in_use")
        fewest = _distinct(max(chosen.low, count * use.low), chosen.low, tokens) / count
        most = _distinct(count * use.high, chosen.high, tokens) / count
        sizes = (self.expert_bytes.low, self.expert_bytes.high)
        return Range(
            min(self.stored_bytes.low - size * (1 - fewest) for size in sizes),
            max(self.stored_bytes.high - size * (1 - most) for size in sizes),
        )


def _distinct(count: float, chosen: float, tokens: int) -> float:
    return count if chosen >= count else count * (1 - (1 - chosen / count) ** tokens)


def active(model: Model) -> Active:
    """The parameters of `model` that a generated token uses.

    decoder = all items but towers and encoder; of the embeddings only the matrix that is the output head is computed with:
    all of them where they are tied, none where there is an item `lm_head`. Range where a checkpoint does not say.

    Errors: InputError for a model without weights.
    Source: Kaplan et al., arXiv 2001.08361, section 2.1: 2 FLOPs a parameter and token, embeddings not counted.
    """
    weights = model.weights
    if weights is None or not weights.params:
        raise InputError(f"the weights of {model.name} are not known, and times follow from them", field="model")
    items = [item for item in weights.items if item.name not in ASIDE]
    looked_up = _looked_up(model, items)
    params, size = sum(item.params for item in items), sum(item.bytes for item in items)
    if _number(config_words(model), table()["experts"]["idle"]):  # experts that compute nothing are counted and never stored
        params = min(params, size * 8 // storage_format(model.dtype).bits)
    used = Range(params - looked_up.high, params - looked_up.low)
    embedded = next((item for item in items if item.name == "embeddings"), None)
    per_param = embedded.bytes / embedded.params if embedded and embedded.params else size / max(1, params)
    stored = Range(size - looked_up.high * per_param, size - looked_up.low * per_param)
    head = _head(model, items)
    found, why = experts(model, params)
    bits = 8 * stored.high / used.high
    if why is not None:  # at least the head and one expert of all there are, at most everything
        share = 1 / (_number(config_words(model), table()["experts"]["count"]) or 1)
        fewest = head + (used.low - head) * share
        least = stored.low * fewest / used.low
        return Active(Range(fewest, used.high), Range(least, stored.high), None, Range(0, 0), bits, head, why)
    if found is None:
        return Active(used, stored, None, Range(0, 0), bits, head)
    even = found.total * stored.low / used.low
    rest = (used.low - found.total) * storage_format(model.dtype).bits / 8
    packed = max(stored.low - rest, 0.0)
    # Packed alike, or the experts alone with the rest in the model's own dtype: the truth lies between.
    routed = Range(min(even, packed), max(even, packed)) if packed else Range(even, even)
    return Active(Range(used.low - found.total, used.high - found.total), stored, found, routed, bits, head)


def _head(model: Model, items: list[WeightItem]) -> int:
    """Parameters of the output head: its own item, else vocabulary x width of the tied embeddings; 0 where neither is known."""
    named = {item.name: item.params for item in items}
    vocabulary = config_words(model).get("vocab_size")
    matrix = vocabulary * model.hidden_size if isinstance(vocabulary, int) else 0
    return named.get("lm_head", min(matrix, named.get("embeddings", sum(named.values()) // 2)))


def _looked_up(model: Model, items: list[WeightItem]) -> Range:
    """Parameters of embeddings that are only looked up, one row a token."""
    named = {item.name: item.params for item in items}
    vocabulary = config_words(model).get("vocab_size")
    matrix = vocabulary * model.hidden_size if isinstance(vocabulary, int) else 0
    if "embeddings" in named:
        if "lm_head" in named:
            return Range(named["embeddings"], named["embeddings"])
        # Tied: the matrix is the head. Positions and embeddings per layer beside it are looked up.
        return Range(0, max(0, named["embeddings"] - matrix)) if matrix else Range(0, 0)
    return Range(0, min(matrix, sum(named.values()) // 2))


def config_words(model: Model) -> dict[str, Any]:
    """The config's words with those of its nested parts; GGUF keys without their architecture."""
    found: dict[str, Any] = {}
    for part in _parts(model.config):
        for key, value in part.items():
            if value is not None:
                found[key.rpartition(".")[2] if "general.architecture" in part else key] = value
    return found


def _parts(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield config
    for name in table()["experts"]["nested"]:
        inner = config.get(name)
        if isinstance(inner, Mapping):
            yield from _parts(inner)


def _number(words: Mapping[str, Any], names: list[str]) -> int | None:
    """The first of these words that is a number above 0; a list of one repeated number is that number."""
    for name in names:
        value = words.get(name)
        if isinstance(value, list) and value and all(each == value[0] for each in value):
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def experts(model: Model, params: int) -> tuple[Experts | None, str | None]:
    """The routed experts by the config's words, or why they cannot be told apart; (None, None) for a dense model.

    params of an expert = matrices (gate, up, down: 3) x input width x expert width.
    """
    words, names = config_words(model), table()["experts"]
    if words.get("enable_moe_block") is False:
        return None, None
    count = _number(words, names["count"])
    if count is None or count == 1:
        return None, None
    chosen, width = _number(words, names["chosen"]), _number(words, names["width"])
    inner = _number(words, names["input"]) or model.hidden_size
    if chosen is None or width is None or not inner:
        missing = "how many of them a token chooses" if chosen is None else "how wide they are"
        return None, f"the config of {model.name} names {count} experts and does not say {missing}: the range is from one to all"
    idle = _number(words, names["idle"]) or 0
    layers = sparse_layers(model, words)
    each = names["matrices"].get(model.model_type, 3) * inner * width
    if layers * count * each >= params:
        return None, f"the experts of {model.name} by its config's words are more than its weights: the range is from one to all"
    return Experts(layers, count, Range(chosen * count / (count + idle), chosen), each), None


def sparse_layers(model: Model, words: Mapping[str, Any]) -> int:
    """How many layers have experts, by whichever words the config says it with; all of them where it says nothing."""
    total = words.get("num_hidden_layers") or words.get("num_layers") or words.get("block_count") or len(model.layers)
    listed = words.get("hybrid_override_pattern") or words.get("layers_block_type")
    if isinstance(listed, str | list):
        marked = sum(kind in ("E", "moe") for kind in listed)
        if marked:
            return marked
    for name, dense in (("mlp_layer_types", "dense"), ("moe_layer_freq", 0)):
        if isinstance(words.get(name), list):
            return sum(each != dense for each in words[name])
    if isinstance(words.get("moe_layers_enum"), str):
        return len([part for part in words["moe_layers_enum"].split(",") if part.strip()])
    first = words.get("first_k_dense_replace") or words.get("leading_dense_block_count") or 0
    step = words.get("moe_layer_freq") or words.get("moe_every_n_layer") or words.get("interleave_moe_layer_step") or 1
    period, offset = words.get("expert_layer_period"), words.get("expert_layer_offset") or 0
    if period:
        return sum(i % period == offset for i in range(total))
    if "interleave_moe_layer_step" in words:
        return sum((i + 1) % step == 0 for i in range(total))
    if "decoder_sparse_step" in words:
        sparse, alone = words["decoder_sparse_step"] or 1, set(words.get("mlp_only_layers") or ())
        return sum(i not in alone and (i + 1) % sparse == 0 for i in range(total))
    return sum(i >= first and i % step == 0 for i in range(total))
