"""The kinds of work: each a workload whose percentiles are those of the table, held by every model that is long enough."""

from __future__ import annotations

import pytest

from planner.workload_kinds import kinds


@pytest.mark.parametrize("name", kinds())
def test_a_kind_is_a_workload_with_the_tables_percentiles(name: str) -> None:
    kind = kinds()[name]
    assert kind.tokens == kind.prompt["p95"] + kind.output["p95"]
    assert kind.prompt["p50"] < kind.prompt["p95"] < kind.prompt["max"]
    work = kind.workload
    assert work.requests == kind.requests
    assert work.longest == kind.prompt["max"] + kind.output["max"]
    assert work.longest <= 131_072  # what models of today take
