"""The whole truth sets, where they are: what the product promises, measured and printed at each run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from planner.model import Model
from validation import coverage, documents


@pytest.fixture(scope="module")
def figures(measured: Callable[[str], Any]) -> dict[str, Any]:
    found: dict[str, Any] = measured("transformers")
    return found


def test_dynamic_and_static_caches(figures: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Every supported row is equal to the byte, at least 99% are supported, and 97% are equal layer by layer."""
    with capsys.disabled():
        print("\n" + coverage.summary(figures))
    tallies = [figures["dynamic"], figures["static"]]
    assert [row for t in tallies for row in t.bytes_differ] == []
    rows, supported = sum(t.rows for t in tallies), sum(t.supported for t in tallies)
    assert rows >= 4_000
    assert supported >= 0.99 * rows
    assert sum(t.layers_exact for t in tallies) >= 0.97 * rows


def test_quantized_caches(figures: dict[str, Any]) -> None:
    tally = figures["quantized"]
    assert tally.rows >= 300
    assert tally.exact >= 0.95 * tally.rows


def test_full_size_models(figures: dict[str, Any]) -> None:
    """At least 98% of the rows that name a config file are equal, from that raw file."""
    tally = figures["real"]
    assert tally.rows >= 500
    assert tally.exact >= 0.98 * tally.rows


def test_public_configs_read_or_refuse(figures: dict[str, Any]) -> None:
    """Every public config.json is read, or refused with a reason; at least 95% are read."""
    files = figures["files"]
    refused = {name: error.message for name, error in files.items() if not isinstance(error, Model)}
    assert all(refused.values())
    assert len(files) - len(refused) >= 0.95 * len(files)


@pytest.mark.parametrize("section", documents.SECTIONS)
def test_documents_are_current(measured: Callable[[str], Any], section: str) -> None:
    """The figures in README.md and docs/COVERAGE.md are those just measured; `make coverage` rewrites them."""
    assert documents.stale(section, measured(section)) == []
