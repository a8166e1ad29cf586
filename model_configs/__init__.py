"""From somebody's config to a described model: `model_configs.read(source)`."""

from model_configs.reader import describe, parse_config, read

__all__ = ["describe", "parse_config", "read"]
