"""What the library says of an engine when it is asked directly, and the line that the Plan page shows for it."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from planner.engines.base import allocated
from planner.errors import PlannerError
from planner.hardware import gpu
from ui import engine_answer, engine_fields
from ui.engine_fields import OPTIONS
from ui.model_input import from_catalogue

B200 = gpu("b200")
CHOICES = OPTIONS[1:]
MODELS = (
    "meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "openai/whisper-large-v3", "deepseek-ai/DeepSeek-V4-Flash",
)  # fmt: skip
GEMMA = "google/gemma-3-27b-it"


def asked(option: str, model: str, tokens: int = 4_000, requests: int = 3, encoder: int = 0, **settings: object) -> int | str:
    """What the library says, asked directly: bytes, or the words of its refusal."""
    own = {"front_end": "ollama"} if option == "ollama" else {}
    known = engine_fields.engine_of(option)
    try:
        cache = allocated(from_catalogue(model), known, known.Settings(**own, **settings), tokens, requests, B200, encoder)
    except PlannerError as refused:
        return refused.message
    return cache.total_bytes


def bytes_of(option: str, model: str, tokens: int, requests: int, **settings: object) -> int:
    """The same where it must be bytes."""
    found = asked(option, model, tokens, requests, **settings)  # type: ignore[arg-type]
    assert isinstance(found, int), found
    return found


def has_encoder(model: str) -> int:
    """Encoder positions of a request: 0 where the model has no encoder."""
    return 1_500 if "whisper" in model else 0


def command(page: AppTest) -> str:
    """The line for the shell on the page."""
    return next(str(code.value) for code in page.code if str(code.value).startswith("python -m planner"))


def choice_of(option: str, **settings: object) -> engine_answer.Choice:
    """An engine with settings as the page chooses them."""
    return engine_answer.Choice(option, engine_fields.engine_of(option).Settings(**settings))
