"""Kinds of work: one press fills the inputs of every page, and the row shows which kind the inputs are like."""

from __future__ import annotations

import pytest

from planner.workload_kinds import kinds
from ui import presets

from .conftest import OpenPage
from .reading import shell, verdict
from .test_carried import CAPACITY, COMPARE, turned


def test_a_kind_fills_the_plan_page_and_the_others(open_page: OpenPage) -> None:
    page = open_page()
    assert page.pills(key="kind_plan").value is None
    page.pills(key="kind_plan").set_value("rag").run()
    assert page.number_input(key="tokens").value == 8_192 + 1_024
    assert page.number_input(key="requests").value == 32
    assert page.pills(key="kind_plan").value == "rag"
    page.number_input(key="requests").set_value(33).run()
    assert page.pills(key="kind_plan").value is None
    page.number_input(key="requests").set_value(32).run()
    page = turned(page, CAPACITY)
    assert page.pills(key="kind_capacity").value == "rag"
    assert page.segmented_control(key="vary").value == "log-normal"
    page = turned(page, COMPARE)
    assert page.number_input(key="length").value == 9_216
    assert page.number_input(key="at_once").value == 32


@pytest.mark.parametrize("name", kinds())
def test_each_kind_has_a_verdict_and_a_line_of_the_shell(open_capacity: OpenPage, name: str) -> None:
    page = open_capacity()
    page.pills(key="kind_capacity").set_value(name).run()
    kind = kinds()[name]
    assert verdict(page)
    line = shell(page)
    assert f"--requests {kind.requests}" in line
    assert f"--prompt p50={kind.prompt['p50']},p95={kind.prompt['p95']},max={kind.prompt['max']}" in line
    assert page.pills(key="kind_capacity").value == name


def test_every_input_that_is_filled_is_one_of_its_page(open_page: OpenPage, open_capacity: OpenPage) -> None:
    capacity = open_capacity(vary="log-normal")
    kind = next(iter(kinds().values()))
    for page, path in ((open_page(), "plan"), (capacity, "capacity"), (turned(open_page(), COMPARE), "compare")):
        for key in presets.inputs(kind)[path]:
            assert any(item.key == key for item in (*page.number_input, *page.toggle, *page.get("button_group"))), key
