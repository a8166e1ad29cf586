"""The direction of imports between the packages, and a few rules that keep the code as it was meant, checked on its AST."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("planner", "model_configs", "validation", "ui")
MOST_LINES = 400

#: planner's modules from the ground up; a module imports only what stands on an earlier line, or beside it where a line is
#: marked as one room. A module that is not named here belongs to the line of its package, else the test says so.
ORDER: tuple[tuple[str, ...], ...] = (
    ("errors", "version"),
    ("units", "search", "reasons", "texts"),
    ("dtypes",),
    ("layers",),
    ("weights",),
    ("model",),
    ("cache",),
    ("accelerators",),
    ("mig",),
    ("hardware", "workload"),
    ("detect",),
    ("engines",),
    ("sharding", "cli_settings", "cli_media", "cli_asked"),
    ("lora",),
    ("budget",),
    ("capacity", "advise", "simulate"),
    ("sweep", "latency", "explain"),
    ("host_tiers", "disaggregate"),
    ("report", "plan_times"),
    ("plan_report", "cli_share", "markdown"),
    ("plan_markdown", "kv_markdown", "launch_script"),
    ("cli_plan", "cli_disaggregate", "cli_sweep", "cli_log"),
    ("cli",),
    ("__main__",),
)
#: Modules that may import each other where they stand on one line: a plan carries its own advice. The files of one topic
#: (capacity.py, capacity_solve.py) may too.
ROOMS = {"engines", "capacity", "advise", "simulate", "sweep", "latency", "explain"}
#: What model_configs may know of planner.
FOR_MODEL_CONFIGS = {"layers", "model", "errors", "units", "dtypes", "weights", "version", "texts"}
#: What may be imported of validation without torch.
LIGHT_VALIDATION = {"logs", "compare", "cut", "agreement", "coverage_sweep"}


def modules(package: str) -> Iterator[tuple[str, Path]]:
    """The dotted names and files of a package's modules."""
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def everything() -> list[tuple[str, Path]]:
    found = [pair for package in PACKAGES for pair in modules(package)]
    return [*found, ("app", ROOT / "app.py")] if (ROOT / "app.py").exists() else found


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def imports(path: Path) -> set[str]:
    """The dotted names of the modules that a file imports anywhere in it, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports are written out in full"
            base = node.module or ""
            found |= {f"{base}.{a.name}" if is_module(f"{base}.{a.name}") else base for a in node.names}
    return found


def top(name: str) -> str:
    return name.partition(".")[0]


def outside(path: Path) -> set[str]:
    """The third-party packages that a file imports."""
    return {top(name) for name in imports(path)} - set(sys.stdlib_module_names) - {*PACKAGES, "app"}


def topic(name: str) -> str:
    """What a module of planner is about: its own name, or that before the first underscore where a line has it."""
    stem = name.split(".")[1]
    return stem if any(stem in line for line in ORDER) else stem.partition("_")[0]


def rank(name: str) -> int:
    """The line of ORDER that a module of planner stands on."""
    stem = name.split(".")[1]
    found = [i for i, line in enumerate(ORDER) if stem in line or topic(name) in line]
    assert found, f"{name} has no place in the order of planner's modules"
    return found[0]


PLANNER = [pair for pair in modules("planner") if pair[0] != "planner"]


@pytest.mark.parametrize(("name", "path"), PLANNER, ids=[name for name, _ in PLANNER])
def test_planner_imports_only_downwards(name: str, path: Path) -> None:
    """Each module of planner imports only what lies below it, and none imports the package's public face.

    Source: CONTRIBUTING.md, "Imports go one way".
    """
    for imported in imports(path):
        if top(imported) != "planner":
            continue
        assert imported != "planner", "modules inside planner import modules, not the public face"
        rooms = topic(name), topic(imported)
        beside = rooms[0] == rooms[1] or (rooms[0] in ROOMS and rooms[1] in ROOMS)
        assert rank(imported) < rank(name) or (beside and rank(imported) == rank(name)), f"{name} imports {imported}"


@pytest.mark.parametrize(("name", "path"), list(modules("planner")), ids=[name for name, _ in modules("planner")])
def test_planner_is_light(name: str, path: Path) -> None:
    """planner needs the standard library, pydantic, yaml and numpy; only its command line knows the other packages."""
    assert outside(path) <= {"pydantic", "yaml", "numpy"}
    others = {i for i in imports(path) if top(i) in ("model_configs", "validation", "ui", "app")}
    if name == "planner.cli":
        assert not any(top(i) in ("ui", "app") for i in others)
        assert {i.split(".")[1] for i in others if i.startswith("validation.")} <= LIGHT_VALIDATION
    else:
        assert not others


@pytest.mark.parametrize(
    ("name", "path"), list(modules("model_configs")), ids=[name for name, _ in modules("model_configs")]
)
def test_model_configs_is_light(name: str, path: Path) -> None:
    """model_configs describes models: no page, no torch, no engine; the Hub's client and GGUF's constants stay in their files."""
    assert all(top(i) not in ("ui", "app", "validation") for i in imports(path))
    ours = {i for i in imports(path) if top(i) == "planner"}
    assert {i.partition(".")[2] for i in ours} <= FOR_MODEL_CONFIGS, sorted(ours)
    allowed = {"yaml", "pydantic", "numpy"}
    stem = path.stem
    if stem.startswith(("hub", "safetensors")):
        allowed |= {"huggingface_hub", "httpx2"}
    if stem.startswith("gguf"):
        allowed |= {"gguf"}
    assert outside(path) <= allowed


@pytest.mark.parametrize(("name", "path"), everything(), ids=[name for name, _ in everything()])
def test_nobody_imports_the_page(name: str, path: Path) -> None:
    """Only app.py and ui itself import ui or streamlit."""
    if top(name) not in ("ui", "app"):
        assert not {"ui", "app", "streamlit", "plotly"} & {top(i) for i in imports(path)}


@pytest.mark.parametrize(("name", "path"), everything(), ids=[name for name, _ in everything()])
def test_torch_stays_where_it_is_measured(name: str, path: Path) -> None:
    """torch and transformers load only in validation's measuring files, never in the web process."""
    if not (top(name) == "validation" and path.stem.startswith("measure")):
        assert not {"torch", "transformers"} & outside(path)
    heavy = {i for i in imports(path) if i.startswith("validation.") and i.split(".")[1] not in LIGHT_VALIDATION}
    assert top(name) == "validation" or not heavy, "only what needs no torch may be imported of validation"


@pytest.mark.parametrize(("name", "path"), everything(), ids=[name for name, _ in everything()])
def test_nothing_from_a_repository_is_run(name: str, path: Path) -> None:
    """No file asks for remote code, or for a class that would fetch it by name."""
    text = path.read_text(encoding="utf-8").replace(" ", "")
    assert "trust_remote_code=True" not in text
    assert "AutoConfig" not in text


@pytest.mark.parametrize(("name", "path"), everything(), ids=[name for name, _ in everything()])
def test_files_answer_one_question(name: str, path: Path) -> None:
    """No module grows beyond 400 lines, and each says in its first line what it is for."""
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert not text.strip() or ast.get_docstring(ast.parse(text))


def test_every_kind_of_cache_says_where_its_shape_comes_from() -> None:
    """The formula and its source stand in the docstring of each kind of cache; the Method page is made from them."""
    tree = ast.parse((ROOT / "planner" / "layers.py").read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    kinds = {"LayerCache"}
    for node in classes:
        if kinds & {base.id for base in node.bases if isinstance(base, ast.Name)}:
            kinds.add(node.name)
            assert "Source:" in (ast.get_docstring(node) or ""), node.name
    assert len(kinds) >= 11
    for node in classes:
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and node.name == "LayerCache" and not method.name.startswith("_"):
                assert ast.get_docstring(method), method.name


@pytest.mark.parametrize("path", sorted((ROOT / "planner" / "engines").glob("*.py")), ids=lambda path: path.stem)
def test_every_engine_says_where_its_bytes_come_from(path: Path) -> None:
    """An engine's cache_bytes and pool name their source."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name in ("cache_bytes", "pool"):
            assert "Source:" in (ast.get_docstring(node) or ""), node.name


@pytest.mark.parametrize("statement", ["import planner, model_configs", "import planner.cli"])
def test_a_fresh_interpreter_loads_nothing_heavy(statement: str) -> None:
    """Counting integers loads neither torch, transformers, the page nor the Hub's client."""
    code = f"{statement}\nimport sys\nprint(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    loaded = set(done.stdout.split())
    assert "planner" in loaded
    assert not loaded & {"torch", "transformers", "streamlit", "huggingface_hub", "plotly", "ui", "validation"}


def test_reading_and_counting_loads_nothing_heavy() -> None:
    """Neither does reading a config and counting its cache."""
    config = {"model_type": "llama", "num_hidden_layers": 2}
    code = (
        f"import sys, planner, model_configs\n"
        f"planner.architecture_bytes(model_configs.read({config!r}), 10)\n"
        f"print(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert not set(done.stdout.split()) & {"torch", "transformers", "streamlit", "huggingface_hub", "plotly"}
