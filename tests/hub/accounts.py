"""The config that tests of the Hub ask for, and the tokens of the two people who ask for it."""

from __future__ import annotations

LLAMA = {"model_type": "llama", "num_hidden_layers": 32}
TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
OTHER_TOKEN = "hf_Zz01234567AbCdEfGhIjKlMnOpQrStUvWx"
BEARER = f"Bearer {TOKEN}"
