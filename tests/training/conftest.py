"""A tiny data folder for the training tests."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder of the tests' own rows, in the public sets' layout."""
    path = Path(__file__).parent / "public_data.py"
    spec = importlib.util.spec_from_file_location("public_data", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written: Path = module.write_data(tmp_path_factory.mktemp("data"))
    return written
