"""The parts of the Capacity page's answer: the verdict, its figures, where the memory goes, and what else would be possible."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from planner.capacity import Option
from planner.capacity_plan import Plan
from planner.units import GIB
from ui import (
    capacity_apply,
    capacity_ask,
    capacity_charts,
    capacity_map,
    capacity_others,
    capacity_why,
    charts,
    messages,
    reason,
    words,
)
from ui import format as fmt
from ui.capacity_inputs import Asked
from ui.i18n import t


def verdict(plan: Plan, asked: Asked) -> None:
    """In English the shell's own first line, and how sure it is."""
    text = messages.plain(words.verdict(plan))
    if plan.fits and plan.certain:
        st.success(f"**{text}**", icon=":material/check_circle:")
    elif plan.fits:
        st.warning(f"**{text}**  \n{_range(plan)}", icon=":material/check_circle:")
    else:
        more = "" if plan.certain else f"  \n{_range(plan)}"
        box = st.warning if plan.max_requests else st.error
        box(f"**{text}**{more}", icon=":material/cancel:")
    cards = " + ".join(f"{share.count} × {share.gpu}" for share in plan.per_gpu)
    about = (plan.model.name, cards, plan.engine if asked.option == plan.engine else asked.option, words.split(plan))
    st.caption(messages.plain(" · ".join(word for word in about if word)))


def _range(plan: Plan) -> str:
    return t("capacity.uncertain", low=_signed(plan.headroom_low), high=_signed(plan.headroom_high))


def _signed(count: int) -> str:
    return t("capacity.short", size=fmt.size(-count)) if count < 0 else t("capacity.free", size=fmt.size(count))


def tiles(plan: Plan, asked: Asked) -> None:
    """Most requests, longest context, what is free, and the cache."""
    grid = st.grid(4, min_column_width=150)
    length, requests, why = f"{plan.length:,}", f"{plan.requests:,}", capacity_why.tiles(plan, asked)
    if plan.max_requests is None:
        reason.tile(grid, "most", t("capacity.most"), t("capacity.no_limit"), None, why["max_requests"])
    else:
        low, high = plan.max_requests_low or 0, plan.max_requests_high
        span = t("capacity.range", low=f"{low:,}", high=f"{high:,}") if high is not None and low != high else None
        most = replace(why["max_requests"], what=t("capacity.most.help", length=length))
        reason.tile(grid, "most", t("capacity.most"), f"{plan.max_requests:,}", span, most)
    longest = replace(why["max_context"], what=t("capacity.longest.help", requests=requests))
    longest_text = f"{plan.max_context:,}" if plan.max_context else t("capacity.none")
    reason.tile(grid, "longest", t("capacity.longest"), longest_text, None, longest)
    label = "capacity.headroom.free" if plan.headroom_bytes >= 0 else "capacity.headroom.short"
    spread = _room(plan) if plan.headroom_low != plan.headroom_high else None
    free = replace(why["headroom_bytes"], what=t("capacity.headroom.help", exact=fmt.exact(abs(plan.headroom_bytes))))
    reason.tile(grid, "headroom", t(label), fmt.size(abs(plan.headroom_bytes)), spread, free)
    what = t("capacity.need.help", exact=fmt.exact(plan.need_bytes), requests=requests, length=length)
    room = t("capacity.need.of", size=fmt.size(max(0, plan.kv_bytes)))
    reason.tile(grid, "need", t("capacity.need"), fmt.size(plan.need_bytes), room, replace(why["kv_need_bytes"], what=what))


def _room(plan: Plan) -> str:
    """The range of what is free, or of what is short, in the words of the figure that it stands below."""
    low, high = plan.headroom_low, plan.headroom_high
    if not plan.certain:
        return t("capacity.range", low=f"{low / GIB:.2f}", high=f"{high / GIB:.2f} GiB")
    if high < 0:
        low, high = -high, -low
    return fmt.span(low, high)


def memory(plan: Plan, asked: Asked) -> None:
    """The bar of one GPU and the terms that it is made of."""
    st.header(t("capacity.memory.many" if plan.gpus > 1 else "capacity.memory"), anchor=False)
    listed = "; ".join(capacity_charts.named(name, count) for name, count in capacity_charts.parts(plan))
    alt = t("capacity.bar.alt", gpu=plan.gpu.name, size=fmt.size(plan.terms[0].bytes), terms=listed)
    with st.container(horizontal=True):
        for term in capacity_charts.legend(plan):
            st.markdown(term, width="content")
    charts.show(capacity_charts.bar(plan), "capacity_bar", alt)
    rows = [
        {
            t("capacity.terms.name"): messages.plain(words.term(term.name)), t("capacity.terms.size"): fmt.size(term.bytes),
            t("capacity.terms.confidence"): words.confidence(term.confidence),
            t("capacity.terms.range"): fmt.span(term.low, term.high) if term.low != term.high else "",
        }
        for term in plan.terms
    ]  # fmt: skip
    st.table(rows, border="horizontal", hide_index=True, alt=t("capacity.terms.alt"))
    st.caption(t("capacity.terms.note"))
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.markdown(t("reason.terms"), width="content", help=t("reason.terms.help"))
        for place, term in enumerate(plan.terms):
            label = f"{words.term(term.name)} {fmt.size(term.bytes)}"
            reason.popover(f"term_{place}", messages.plain(label), capacity_why.term(plan, asked, place))
    if len(plan.per_gpu) > 1:
        _cards(plan)


def _cards(plan: Plan) -> None:
    """Each card where they differ."""
    rows = [
        {
            t("capacity.card.gpu"): messages.plain(share.gpu), t("capacity.card.memory"): fmt.size(share.memory_bytes),
            t("capacity.card.weights"): fmt.size(share.weight_bytes), t("capacity.card.cache"): fmt.size(share.cache_bytes),
            t("capacity.card.other"): fmt.size(share.other_bytes), t("capacity.card.free"): fmt.size(share.free_bytes),
        }
        for share in plan.per_gpu
    ]  # fmt: skip
    st.table(rows, border="horizontal", hide_index=True, alt=t("capacity.card.alt"))


def curve(plan: Plan, asked: Asked) -> None:
    """Most requests at once against their length, with the person's point."""
    st.header(t("capacity.curve.title"), anchor=False)
    points = capacity_ask.curve(asked, plan)
    held = [(length, most) for length, most in points if most]
    if any(most is None for _, most in points):
        st.markdown(t("capacity.most.none"))
        return
    if not held:
        st.markdown(t("capacity.curve.nothing"))
        return
    told = ", ".join(t("capacity.curve.point", tokens=f"{x:,}", requests=f"{y:,}") for x, y in held[:: max(1, len(held) // 4)])
    figure = capacity_charts.curve(held, (capacity_map.length_of(plan), plan.requests), plan.fits)
    charts.show(figure, "capacity_curve", t("capacity.curve.alt", points=told))
    longest = max(length for length, _ in points)
    cut = "" if held[-1][0] == longest else " " + t("capacity.curve.cut", tokens=f"{held[-1][0]:,}", longest=f"{longest:,}")
    st.caption(t("capacity.curve.note") + cut)


def advice(plan: Plan, asked: Asked) -> None:
    """What to change, each with what comes of it and, where the inputs can say it, a button that does it."""
    st.header(t("capacity.advice.buys" if plan.fits else "capacity.advice.title"), anchor=False)
    found = capacity_ask.advice(asked, plan)
    if not found:
        st.markdown(t("capacity.advice.nothing" if plan.fits else "capacity.advice.none"))
    for index, one in enumerate(found):
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            most = t("capacity.no_limit") if one.max_requests is None else f"{one.max_requests:,}"
            after = t("capacity.advice.after", free=fmt.size(one.headroom_bytes), most=most, length=f"{one.max_context:,}")
            st.markdown(f"{messages.plain(messages.sentence(words.advice(one)))}  \n:small[{after}]", width="stretch")
            new = capacity_apply.values(one.change, one.gpus, asked, plan)
            if new is not None:
                st.button(
                    t("capacity.apply"), key=f"apply_{index}_{one.code}", on_click=capacity_apply.take, args=(new,),
                    icon=":material/check:", help=t("capacity.apply.help"),
                )  # fmt: skip


def legal_splits(options: tuple[Option, ...], asked: Asked) -> None:
    """Where the split that was said is refused: those of the same GPUs that are not."""
    st.header(t("capacity.splits.title"), anchor=False)
    capacity_others.table(options, None, t("capacity.others.splits"))
    st.caption(t("capacity.others.splits.note"))
    capacity_others.buttons(capacity_others.SPLITS, options, asked, None)


def notes(plan: Plan) -> None:
    """What may go otherwise, and what was assumed."""
    said = dict.fromkeys((*plan.warnings, *([plan.model.assumption] if plan.model.assumption else [])))
    for text in said:
        st.warning(messages.plain(messages.sentence(words.told(text))), icon=":material/warning:")
    if plan.notes:
        st.caption("  \n".join(messages.plain(messages.sentence(words.told(text))) for text in dict.fromkeys(plan.notes)))
