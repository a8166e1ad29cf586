"""The texts of each language: the same keys and {fields}, one script, the field's own terms, and every code of the planner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter

import opencc
import pytest
import yaml

from model_configs import read as read_model
from planner import errors, explain
from planner.advise_texts import TEXTS as ADVICE
from planner.capacity import plan
from planner.engines import ENGINES
from planner.engines.explain import TEXTS as DIFFERENCES
from planner.texts import TEXTS
from planner.workload import Workload
from ui.charts import ALIKE
from ui.i18n import texts

LOCALES = Path(__file__).resolve().parents[2] / "ui" / "locales"
CHINESE = ("zh-CN", "zh-TW")
GLOSSARY = yaml.safe_load((LOCALES / "glossary.yaml").read_text(encoding="utf-8"))
#: A character of Chinese.
HAN = re.compile(r"[\u4e00-\u9fff]")
#: Texts that are the same in every language: names, ids, units, and what is put together from fields alone.
LETTERS = re.compile(r"\{[^}]*\}|`[^`]*`|KV dtype|Hugging Face|config\.json|GPU|GiB|head_dim|Rank|owner/name|\b(?:m?s|B)\b")


def read(path: Path) -> dict[str, str]:
    found: dict[str, str] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def parts() -> list[str]:
    """What the English files are called after their language: "yaml", "learn.yaml"."""
    return [path.name.removeprefix("en.") for path in sorted(LOCALES.glob("en.*"))]


def fields(text: str) -> list[tuple[str, str]]:
    """The {fields} of a text with their formats, in alphabetical order, because another language may turn them round."""
    return sorted((name, form or "") for _, name, form, _ in Formatter().parse(text) if name is not None)


# Keys and fields


@pytest.mark.parametrize("code", CHINESE)
@pytest.mark.parametrize("part", parts())
def test_each_file_has_the_keys_of_the_english_in_its_order(code: str, part: str) -> None:
    assert list(read(LOCALES / f"{code}.{part}")) == list(read(LOCALES / f"en.{part}"))


@pytest.mark.parametrize("code", CHINESE)
def test_each_text_has_the_fields_of_the_english(code: str) -> None:
    differ = {key for key, text in texts("en").items() if fields(text) != fields(texts(code)[key])}
    assert differ == set()


@pytest.mark.parametrize("code", CHINESE)
def test_nothing_is_left_in_english(code: str) -> None:
    """A text without a Chinese character is made of names, units and fields alone."""
    kept = {"input.config.origin.pasted", "input.config.origin.uploaded", "explain.log.placeholder"}
    left = {key for key, text in texts(code).items() if not HAN.search(text) and re.search(r"[A-Za-z]", LETTERS.sub("", text))}
    assert left == kept  # the first two go into the planner's own English sentences


def codes() -> dict[str, str]:
    """Every text of the planner that has a code, with its English."""

    def kinds(root: type[errors.PlannerError]) -> Iterator[type[errors.PlannerError]]:
        yield root
        for one in root.__subclasses__():
            yield from kinds(one)

    found = {f"error.{one.code}": "{detail}" for one in kinds(errors.PlannerError) if one.__module__ == errors.__name__}
    found |= {f"advice.{code}": text for code, text in ADVICE.items()}
    found |= {f"difference.{code}": text for code, text in DIFFERENCES.items()} | {"difference": "{size}: {text}"}
    found |= {f"kind.{kind}": kind for kind in (*explain.KINDS, *ALIKE)}
    found |= {f"kind.{kind}.what": text for kind, text in explain.KINDS.items()}
    found |= {f"told.{code}": text for code, text in TEXTS.items()}
    return found


@pytest.mark.parametrize("code", CHINESE)
def test_every_code_of_the_planner_has_a_text(code: str) -> None:
    """Errors, advice, reasons, kinds, what is told; another language may use a field twice, and need not say how many layers."""
    spoken, known = {**read(LOCALES / f"{code}.planner.yaml"), **read(LOCALES / f"{code}.told.yaml")}, codes()
    heads = {key.split(".")[0] for key in known}
    assert {key for key in spoken if key.split(".")[0] in heads} == set(known)
    assert {key for key in known if set(fields(spoken[key])) != set(fields(known[key]))} == set()


def test_both_languages_translate_the_same_of_the_planner() -> None:
    for part in ("planner", "told", "arithmetic"):
        simplified, traditional = (read(LOCALES / f"{code}.{part}.yaml") for code in CHINESE)
        assert list(simplified) == list(traditional)
        assert {key for key in simplified if fields(simplified[key]) != fields(traditional[key])} == set()


def test_every_term_of_a_plan_and_its_confidence_has_a_text() -> None:
    """Terms are named where they are made, so plans of every engine are asked, with all that can take memory."""
    found: set[str] = set()
    for engine in ENGINES:
        for name, given in (
            ("Qwen/Qwen2.5-7B", {"other processes": 1 << 30, "lora adapters": 1 << 20}),
            ("google/gemma-3-27b-it", {"runtime": 1 << 30}), ("google/gemma-3-27b-it", {}),
        ):  # fmt: skip
            one = plan(read_model(name), engine, None, "h100", 1, Workload(512, 64, 2), given, advice=False)
            found |= {f"term.{term.name.replace(' ', '_')}" for term in one.terms}
            found |= {f"confidence.{term.confidence}" for term in one.terms}
    assert {"term.lora_adapters", "term.kept_free", "term.compute_buffer", "term.runtime", "term.image_encoder"} <= found
    for code in CHINESE:
        assert found - set(texts(code)) == set()


# Script and terms


@cache
def converter(name: str) -> opencc.OpenCC:
    return opencc.OpenCC(name)


@pytest.mark.parametrize(("code", "to"), [("zh-CN", "t2s"), ("zh-TW", "s2tw")])
def test_scripts_do_not_mix(code: str, to: str) -> None:
    """Made simplified, or traditional as in Taiwan, by OpenCC, a text stays as it is."""
    mixed = {}
    for key, text in texts(code).items():
        other = converter(to).convert(text)
        if len(other) != len(text) or any(a != b and a not in GLOSSARY["fine"] for a, b in zip(text, other, strict=True)):
            mixed[key] = other
    assert mixed == {}


@pytest.mark.parametrize("code", CHINESE)
def test_no_text_has_the_other_languages_words(code: str) -> None:
    assert {(key, word) for key, text in texts(code).items() for word in GLOSSARY["never"][code] if word in text} == set()


@pytest.mark.parametrize("row", GLOSSARY["terms"], ids=lambda row: row["en"])
def test_terms_are_the_same_everywhere(row: dict[str, str]) -> None:
    pattern = re.compile(rf"(?<![a-z_-]){row['en']}(?![a-z_-])", re.IGNORECASE)
    keys = {key for key, text in texts("en").items() if pattern.search(re.sub(r"\{[^}]*\}|`[^`]*`", "", text))}
    assert keys
    for code in CHINESE:
        assert {key for key in keys - set(row.get("except", ())) if row[code] not in texts(code)[key]} == set()


@pytest.mark.parametrize("code", CHINESE)
def test_bold_text_is_bold_in_markdown(code: str) -> None:
    """CommonMark ends bold after a punctuation mark only before a space or another mark, which Chinese seldom has."""
    wrong = {}
    for key, text in texts(code).items():
        pieces = text.split("**")
        for place in range(1, len(pieces) - 1, 2):
            inside, after = pieces[place], pieces[place + 1]
            if re.search(r"[^\w\s}]$", inside) and re.match(r"[\w{]", after):
                wrong[key] = inside
    assert wrong == {}


# The short READMEs


def readme(code: str) -> str:
    return (LOCALES.parents[1] / f"README.{code}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("code", "to"), [("zh-CN", "t2s"), ("zh-TW", "s2tw")])
def test_a_readme_is_of_one_script_with_the_languages_terms(code: str, to: str) -> None:
    text = readme(code).replace("简体中文", "").replace("繁體中文", "")  # the languages' own names
    assert [word for word in GLOSSARY["never"][code] if word in text] == []
    other = converter(to).convert(text)
    assert [a + b for a, b in zip(text, other, strict=True) if a != b and a not in GLOSSARY["fine"]] == []


@pytest.mark.parametrize("code", CHINESE)
def test_a_readmes_commands_are_the_english_ones_and_its_links_lead_somewhere(code: str) -> None:
    root = LOCALES.parents[1]
    english = (root / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ .+$", readme(code), re.MULTILINE)
    assert commands
    assert [line for line in commands if f"{line}\n" not in english] == []
    links = re.findall(r"\]\(([^)#]+)", readme(code))
    assert [link for link in links if not (root / link).exists()] == []


def test_a_readmes_python_runs() -> None:
    code = {re.search(r"```python\n(.*?)```", readme(code), re.DOTALL)[1] for code in CHINESE}
    assert len(code) == 1
    scope: dict[str, object] = {}
    exec(code.pop(), scope)
    assert scope["plan"].verdict == "fits"
