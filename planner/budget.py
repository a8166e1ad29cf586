"""The memory budget of one rank: from the device's total down to what is left for the KV cache, every term with its range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.budget_engines import PLANS, Case, Plan
from planner.budget_terms import GIVEN, Confidence, Term, check_given, device, given_term, runtime
from planner.engines import engine as find_engine
from planner.hardware import Gpu
from planner.hardware import gpu as find_gpu
from planner.model import Model
from planner.reasons import Formula, identifier, step
from planner.reasons import known as as_it_is
from planner.texts import tell

__all__ = ["GIVEN", "Budget", "Confidence", "Term", "budget"]


@dataclass(frozen=True)
class Budget:
    """The fullest rank's memory. terms[0] is the device's total, the others are taken of it.

    kv_bytes: what is left for the cache, below 0 where nothing is, and its `formula`; kv_low and kv_high: with every term at its
    worst and best.
    device = sum of the other terms + kv_bytes, unless the person gave the cache itself: then see free_bytes.
    """

    engine: str
    version: str
    terms: tuple[Term, ...]
    kv_bytes: int
    kv_low: int
    kv_high: int
    kv_confidence: Confidence = "estimated"
    warnings: tuple[str, ...] = ()
    formula: Formula = field(default=(), compare=False, repr=False)

    def term(self, name: str) -> Term | None:
        """The term called `name`, None where this engine has none."""
        return next((term for term in self.terms if term.name == name), None)

    @property
    def free_bytes(self) -> int:
        """What neither a term nor the cache takes; below 0 where more is asked for than the device has."""
        return self.terms[0].bytes - sum(term.bytes for term in self.terms[1:]) - self.kv_bytes


def budget(
    model: Model,
    engine: str,
    settings: Any = None,
    gpu: Gpu | str = "h100",
    *,
    given: Mapping[str, int] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> Budget:
    """What one GPU has for the cache under `engine`, and what takes the rest.

    kv = the engine's own rule over (device, weights, what lies outside PyTorch, activation peak, graphs), each term at its
    value; low and high with each term at the end of its range that leaves less and more.

    settings: the engine's Settings, its defaults where None. gpu: an accelerator or its name. given: bytes that the person
    knows, by a name of `GIVEN`; they win over the planner's, have no range and are marked "given". constants: another fit
    of runtime.yaml, for checks of the fit.

    Errors: InputError (unknown engine or GPU, weights not known, a `given` that is no term), EngineRefusal.
    Source: each engine's rule in planner/budget_engines.py; constants in planner/data/runtime.yaml.
    """
    found = find_engine(engine)
    settings = found.Settings() if settings is None else settings
    card = find_gpu(gpu) if isinstance(gpu, str) else gpu
    known = check_given(given)
    if getattr(settings, "kv_cache_memory_bytes", None):
        known.setdefault("kv", settings.kv_cache_memory_bytes)
    total = device(card, known)
    plan = PLANS[engine](Case(model, settings, card, known, constants or runtime()))
    terms = (total, *plan.terms)
    fixed = given_term("kv", known)
    if fixed:
        size, short = fixed.bytes, _short(terms, fixed.bytes)
        return Budget(engine, settings.version, terms, size, size, size, "given", short, as_it_is("budget", "given", size))
    sizes = {term.name: term.bytes for term in terms}
    value = plan.kv(sizes)
    low = plan.kv({term.name: term.low if term is total else term.high for term in terms})
    high = plan.kv({term.name: term.high if term is total else term.low for term in terms})
    terms += _outside(plan, terms, value)
    order = ("exact", "given", "documented", "measured", "estimated")
    worst = max((term.confidence for term in terms), key=order.index)
    return Budget(engine, settings.version, terms, value, low, high, worst, plan.warnings, plan.rule(sizes, value))


def _outside(plan: Plan, terms: tuple[Term, ...], value: int) -> tuple[Term, ...]:
    """What the engine's fraction leaves alone."""
    if not plan.outside:
        return ()
    rest = terms[0].bytes - sum(term.bytes for term in terms[1:]) - value
    sizes = {identifier(term.name): term.bytes for term in terms} | {"budget": value}
    rule = step(identifier(plan.outside), " - ".join(f"{{{name}}}" for name in sizes), rest, **sizes)
    return (Term(plan.outside, rest, rest, rest, "documented", plan.outside_source, (rule,)),)


def _short(terms: tuple[Term, ...], cache: int) -> tuple[str, ...]:
    missing = sum(term.bytes for term in terms[1:]) + cache - terms[0].bytes
    return (tell("cache_given_too_large", missing=missing),) if missing > 0 else ()
