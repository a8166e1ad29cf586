"""The arithmetic of KV-cache memory: kinds of layer cache, models, engines. No network, no torch, no page."""

from planner.cache import CacheBytes, architecture_bytes
from planner.capacity import Plan, plan
from planner.engines import engine
from planner.errors import ConfigError, EngineRefusal, HubError, InputError, PlannerError, UnsupportedArchitecture
from planner.layers import Layer
from planner.model import Model, Source
from planner.units import GIB
from planner.version import VERSION
from planner.workload import Workload

__version__ = VERSION
__all__ = [
    "GIB", "CacheBytes", "ConfigError", "EngineRefusal", "HubError", "InputError", "Layer", "Model", "Plan", "PlannerError",
    "Source", "UnsupportedArchitecture", "Workload", "architecture_bytes", "engine", "plan",
]  # fmt: skip
