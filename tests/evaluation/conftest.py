"""A tiny data folder for the evaluation, and the shipped artifact."""

import gzip
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.evaluation.subject import Subject

HEURISTIC = "litellm.router_strategy.complexity_router.complexity_router"


@pytest.fixture(autouse=True)
def _no_heuristic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep litellm out of the quick tests: importing it takes ten seconds."""
    if request.node.get_closest_marker("train") is None:
        monkeypatch.setitem(sys.modules, HEURISTIC, None)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the training tests' rows, and what only the evaluation reads."""
    path = Path(__file__).parents[1] / "training" / "public_data.py"
    spec = importlib.util.spec_from_file_location("public_data", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder: Path = module.write_data(tmp_path_factory.mktemp("data"))
    clinc = folder / "intents" / "clinc150" / "data_full.json.gz"
    parts = json.loads(gzip.decompress(clinc.read_bytes()))
    parts["test"] = [[f"set an alarm for {i} in the morning", "alarm"] for i in range(20)]
    parts["oos_test"] = [[f"how tall is tower {i}", "oos"] for i in range(20)]
    clinc.write_bytes(gzip.compress(json.dumps(parts).encode()))
    (folder / "kinds" / "chatterbot_corpus" / "german__food.yml").write_text(
        "categories:\n- food\nconversations:\n- - trinkst du gerne Kaffee\n  - Nein\n",
        encoding="utf-8",
    )
    return folder


@pytest.fixture(scope="session")
def shipped() -> Iterator[Subject]:
    """Return the shipped artifact as the subject of an evaluation."""
    subject = Subject.load("laya-base")
    yield subject
    subject.close()
