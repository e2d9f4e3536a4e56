"""A model that cannot be loaded says which file, package or setting is to blame."""

import hashlib
import sys

import pytest

from fast_tier.errors import ModelUnavailable
from fast_tier.llama_server import gguf_revision
from fast_tier.text_engine import TextEngine


def load(path, **changes):
    sizes = {"context_tokens": 64, "threads": 1, "system_prompt": "Answer in English."}
    return TextEngine.load(path, **(sizes | changes))


@pytest.fixture
def gguf(tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF" + bytes(60))
    return path


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ModelUnavailable, match=r"nowhere\.gguf: cannot be read: No such file"):
        load(tmp_path / "nowhere.gguf")


def test_a_folder_is_no_model(tmp_path):
    with pytest.raises(ModelUnavailable, match="cannot be read: Is a directory"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"GGU", b"PK\x03\x04 an archive"])
def test_a_file_of_another_kind_is_named(tmp_path, content):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelUnavailable, match=r"model\.gguf: not a GGUF file"):
        load(path)


def test_a_missing_library_names_the_extra_to_install(gguf, monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'fastslow\[llm\]'"):
        load(gguf)


@pytest.mark.parametrize("name", ["context_tokens", "threads", "slots"])
def test_a_size_below_one_is_named(gguf, name):
    with pytest.raises(ValueError, match=f"{name}: must be >= 1, got 0"):
        load(gguf, **{name: 0})


def test_a_blank_system_prompt_is_refused(gguf):
    with pytest.raises(ValueError, match="system_prompt: must not be blank"):
        load(gguf, system_prompt=" \n")


def test_the_revision_sees_a_change_in_the_last_byte(gguf):
    before = gguf_revision(gguf)
    assert before == f"sha256:{hashlib.sha256(gguf.read_bytes()).hexdigest()}"
    gguf.write_bytes(b"GGUF" + bytes(59) + b"\x01")
    assert gguf_revision(gguf) != before
