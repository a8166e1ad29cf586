"""What all tests share: where the truth sets are, and the rows in them."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

#: The same examples at each run, whatever the machine's speed; a test may ask for more of them.
settings.register_profile("steady", derandomize=True, database=None, deadline=None)
settings.load_profile("steady")

ROOT = Path(__file__).resolve().parent.parent


def truth_folder() -> Path | None:
    """The folder with the full truth sets: $PLANNER_TRUTH, else `shared` beside the checkout."""
    folder = Path(os.environ.get("PLANNER_TRUTH") or ROOT.parent / "shared")
    return folder if (folder / "truth").is_dir() else None


@pytest.fixture(scope="session")
def truth() -> Path:
    """The truth folder; skips, saying so, where there is none."""
    folder = truth_folder()
    if folder is None:
        pytest.skip("the full truth sets are not here: set PLANNER_TRUTH, or put them in `shared` beside the checkout")
    return folder


@pytest.fixture(scope="session")
def measured(truth: Path) -> Callable[[str], Any]:
    """The figures of a section of validation.documents, measured once a session."""
    from validation.documents import SECTIONS

    return functools.cache(lambda section: SECTIONS[section][0](truth))


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSON-lines file."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
