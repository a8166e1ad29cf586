"""From somebody's config to a described model: `model_configs.read(source)`."""

from model_configs.decoder import parse_config
from model_configs.description import describe
from model_configs.media import MediaTokens, Video, media_tokens
from model_configs.reader import read

__all__ = ["MediaTokens", "Video", "describe", "media_tokens", "parse_config", "read"]
