"""Builds the model that a config describes, with random weights or real ones, on the device that is measured.

Only classes that the installed transformers ships are built; nothing from a model repository is executed, and weights are
read from safetensors alone.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
    GenerationConfig,
)
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.utils import logging

from model_configs.decoder import canonical_type
from planner.errors import InputError, Unavailable, shown
from planner.model import Model

_CLASSES = (
    (modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM),
    (modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, AutoModelForSeq2SeqLM),
    (modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING, AutoModelForSpeechSeq2Seq),
    (modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, AutoModelForImageTextToText),
)
#: Words of a config that say how weights are stored or where code lies, which random weights do not follow.
_STORAGE = ("quantization_config", "auto_map", "torch_dtype", "dtype", "transformers_version", "_name_or_path")


@dataclass(frozen=True)
class Built:
    """A model that can generate. `notes` say what was changed to build it."""

    model: Any
    encoder: bool
    notes: tuple[str, ...]

    @property
    def vocabulary(self) -> int:
        return int(self.model.config.get_text_config(decoder=True).vocab_size)

    @property
    def parameters(self) -> tuple[int, int]:
        """Parameters and their bytes, tied ones once."""
        found = list(self.model.parameters())
        return sum(p.numel() for p in found), sum(p.numel() * p.element_size() for p in found)


def device_of(wanted: str) -> torch.device:
    """The device to measure on. InputError when CUDA is asked for and there is none."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise InputError("there is no CUDA device here; use --device cpu", field="device")
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def build(
    described: Model, dtype: str, device: torch.device, weights: str = "random", revision: str | None = None,
    token: str | None = None, seed: int = 0,
) -> Built:  # fmt: skip
    """The model of a described config, in `dtype` on `device`, ready to generate.

    weights: "random", "hub" (the repository that the config came from) or a folder of safetensors.
    Errors: InputError (a type that transformers does not ship, a config that its class refuses, no safetensors, a
    quantized checkpoint), Unavailable (the Hub).
    """
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    config, notes = _config(described, text_only=weights == "random")
    loader = _loader(config)
    if weights == "random":
        torch.manual_seed(seed)
        with quietly(), device:
            model = _attempt(loader.from_config, described, config, dtype=getattr(torch, dtype))
    else:
        source = _weights_source(described, weights)
        revision = revision or described.source.commit
        with quietly():
            model = _load(loader, source, config, getattr(torch, dtype), revision, token).to(device)
    model.eval().requires_grad_(False)
    model.generation_config = GenerationConfig()
    return Built(model, bool(config.is_encoder_decoder), tuple(notes))


@contextmanager
def quietly() -> Iterator[None]:
    """Warnings of building and generating are about special tokens and kernels, not about the cache."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _config(described: Model, text_only: bool) -> tuple[Any, list[str]]:
    """The class's own config object, of the decoder alone where the weights need not be those of a checkpoint."""
    given = {key: value for key, value in copy.deepcopy(dict(described.config)).items() if key not in _STORAGE}
    model_type = canonical_type(given.get("model_type")) or ""
    if "general.architecture" in given:
        raise InputError("a GGUF file cannot be built with transformers; name the model's config.json", field="model")
    if model_type not in CONFIG_MAPPING:
        raise InputError(
            f"transformers does not ship {shown(given.get('model_type'))}, and nothing from a repository is run", field="model"
        )
    known, notes = CONFIG_MAPPING[model_type], []
    with quietly():
        try:
            config = known.from_dict(given)
        except (KeyError, ValueError, TypeError, AttributeError):
            config = _attempt(known.from_dict, described, _plain_rope(given))
            notes.append("Rotary scaling is left out: the config does not give all of its figures, and no byte depends on it.")
        if described.config.get("quantization_config"):
            notes.append("The checkpoint is quantized; these are its shapes in the dtype that was asked for.")
        text = config.get_text_config(decoder=True)
        if text_only and text is not config and not config.is_encoder_decoder and _maps(text):
            notes.append("The text decoder alone is built, without vision or audio towers.")
            return text, notes
    return config, notes


def _plain_rope(given: Mapping[str, Any]) -> dict[str, Any]:
    """The config without rotary scaling, in every part of it."""
    kept = {key: value for key, value in given.items() if key not in ("rope_scaling", "rope_parameters")}
    return {key: _plain_rope(value) if isinstance(value, dict) else value for key, value in kept.items()}


def _attempt(make: Any, described: Model, *given: Any, **more: Any) -> Any:
    try:
        return make(*given, **more)
    except torch.OutOfMemoryError:
        text = f"the weights of {described.name} do not fit on this device; cut it with --layers"
        raise InputError(text, field="layers") from None
    except (KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"transformers' {described.model_type} class refuses this config: {text}", field="model") from None


def _maps(config: Any) -> bool:
    return any(type(config) in mapping for mapping, _ in _CLASSES)


def _loader(config: Any) -> Any:
    order = (*_CLASSES[1:], _CLASSES[0]) if config.is_encoder_decoder else _CLASSES
    for mapping, loader in order:
        if type(config) in mapping:
            return loader
    raise InputError(f"transformers has no class that generates text for {config.model_type}", field="model")


def _weights_source(described: Model, weights: str) -> str:
    if described.config.get("quantization_config"):
        text = f"the checkpoint of {described.name} is quantized, which is not loaded here; use --weights random"
        raise InputError(text, field="weights")
    if weights == "hub":
        if described.source.kind not in ("hub", "catalogue"):
            text = "weights is hub, but the model was not named by its Hub id; give --weights a folder"
            raise InputError(text, field="weights")
        return described.source.name
    folder = Path(weights).expanduser()
    if not folder.is_dir() or not list(folder.glob("*.safetensors")):
        raise InputError(f"{weights} is not random, hub or a folder with safetensors files", field="weights")
    return os.fspath(folder)


def _load(loader: Any, source: str, config: Any, dtype: torch.dtype, revision: str | None, token: str | None) -> Any:
    local = os.path.isdir(source)
    more = {} if local else {"revision": revision or "main", "token": token}
    try:
        return loader.from_pretrained(
            source, config=config, dtype=dtype, use_safetensors=True, trust_remote_code=False, local_files_only=local, **more
        )
    except OSError as error:
        if local:
            raise InputError(f"{source} cannot be loaded: {str(error).splitlines()[0]}", field="weights") from None
        raise Unavailable(
            f"the Hub gave no safetensors of {source}; see that it can be reached, or give --weights a folder", model=source
        ) from None
    except (RuntimeError, ValueError) as error:
        text = f"the weights of {source} do not fit its config: {str(error).splitlines()[0]}"
        raise InputError(text, field="weights") from None
