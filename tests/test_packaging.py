"""What an installation brings, and what it must not."""

import importlib.metadata
import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = ("cache", "fast_tier", "router", "slow_tier")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HEAVY = {
    "faiss",
    "grpc",
    "httpx",
    "numpy",
    "onnxruntime",
    "pydantic",
    "tokenizers",
    "torch",
    "yaml",
}


def imported_by(*arguments: str) -> set[str]:
    """Return the top-level modules a fresh Python imports; its own report goes to stderr."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    names = [line.rpartition("|")[2].strip() for line in result.stderr.splitlines()]
    return {name.partition(".")[0] for name in names}


def required_by(name: str, *, seen: set[str]) -> set[str]:
    """Return what installing ``name`` without extras brings, as far as it is installed here."""
    if name in seen:
        return seen
    seen.add(name)
    try:
        requirements = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return seen
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            required_by(canonicalize_name(requirement.name), seen=seen)
    return seen


@pytest.mark.parametrize("name", PACKAGES)
def test_no_foreign_distribution_owns_our_import_names(name: str) -> None:
    owners = importlib.metadata.packages_distributions().get(name, [])
    assert set(owners) <= {"fastslow"}
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert Path(str(spec.origin)) == ROOT / name / "__init__.py"


def test_a_plain_install_brings_no_training_library() -> None:
    brought = required_by("fastslow", seen=set())
    assert {"grpcio", "onnxruntime", "numpy"} <= brought
    assert not brought & {"torch", "transformers", "sentence-transformers", "scikit-learn"}


def test_every_package_folder_is_listed_and_no_other() -> None:
    folders = {file.parent for name in PACKAGES for file in (ROOT / name).rglob("*.py")}
    found = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert found == set(PYPROJECT["tool"]["setuptools"]["packages"])


def test_the_weights_are_package_data() -> None:
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["router"]
    folder = ROOT / "router"
    weights = [path.relative_to(folder) for path in (folder / "weights").rglob("*.*")]
    assert weights
    for path in weights:
        assert any(path.match(pattern) for pattern in patterns), path


def test_the_console_script_is_the_command_line() -> None:
    [script] = importlib.metadata.entry_points(group="console_scripts", name="fastslow")
    from router.cli.app import main

    assert script.load() is main


def test_help_imports_nothing_heavy() -> None:
    imported = imported_by("-m", "router", "--help")
    assert "typer" in imported
    assert not imported & HEAVY


def test_importing_router_imports_nothing_heavy() -> None:
    imported = imported_by("-c", "import router")
    assert "router" in imported
    assert not imported & HEAVY


def test_no_python_stands_beside_the_contract() -> None:
    assert list((ROOT / "proto").rglob("*.proto"))
    assert not list((ROOT / "proto").rglob("*.py")), "proto-plus owns the import name proto"


def test_the_tests_are_no_packages() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))
