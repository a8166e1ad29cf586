"""The page's texts by key, so that a language is one file in locales/."""

from __future__ import annotations

import functools
from importlib import resources

import yaml

DEFAULT = "en"


@functools.cache
def texts(language: str = DEFAULT) -> dict[str, str]:
    """Every text of a language. Raises FileNotFoundError for one without a file."""
    text = resources.files("ui").joinpath(f"locales/{language}.yaml").read_text(encoding="utf-8")
    return dict(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def t(key: str, language: str = DEFAULT, **fields: object) -> str:
    """The text called `key` with its {fields} filled in. KeyError for a key that the language lacks."""
    text = texts(language)[key]
    return text.format(**fields) if fields else text
