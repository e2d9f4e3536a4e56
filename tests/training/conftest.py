"""A tiny data folder, a tiny encoder and separable rows for the training tests."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def neighbour(name: str) -> ModuleType:
    """Return a module beside this file, which tests cannot import by name."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder of the tests' own rows, in the public sets' layout."""
    written: Path = neighbour("public_data").write_data(tmp_path_factory.mktemp("data"))
    return written


@pytest.fixture(scope="session")
def made_up() -> ModuleType:
    """Return what makes rows and encoders up."""
    return neighbour("made_up")


@pytest.fixture(scope="session")
def tiny_encoder(made_up: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a random ModernBERT with two layers."""
    folder: Path = made_up.write_modernbert(tmp_path_factory.mktemp("bases") / "tiny")
    return folder
