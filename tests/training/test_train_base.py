"""What a training cannot start from is refused by what it is."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.train, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "model_type is 'bert', only 'modernbert'"),
        ({"num_hidden_layers": 3}, "is no configuration of a ModernBERT"),
        (
            {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3},
            "lacks .* of the encoder's tensors, .*layers.2",
        ),
        ({"hidden_size": 32}, "does not fit config.json"),
    ],
)
def test_another_model_is_refused_by_what_it_is(
    change: dict[str, Any], message: str, made_up: ModuleType, tmp_path: Path
) -> None:
    from router.training.base import BaseError, load_base

    folder = made_up.write_modernbert(tmp_path / "other")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | change), encoding="utf-8")
    with pytest.raises(BaseError, match=message):
        load_base(str(folder))


def test_a_folder_without_weights_or_separator_is_refused(
    made_up: ModuleType, tmp_path: Path
) -> None:
    from router.training.base import BaseError, load_base

    with pytest.raises(BaseError, match=r"no such folder; .*hf download"):
        load_base(str(tmp_path / "nowhere"))
    folder = made_up.write_modernbert(tmp_path / "other")
    tokenizer = (folder / "tokenizer.json").read_text(encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer.replace("[SEP]", "</s>"), encoding="utf-8")
    with pytest.raises(BaseError, match=r"has no \[SEP\] token"):
        load_base(str(folder))
    (folder / "model.safetensors").unlink()
    with pytest.raises(BaseError, match=r"model.safetensors: is missing"):
        load_base(str(folder))


def test_weights_cut_short_are_refused_by_their_file(made_up: ModuleType, tmp_path: Path) -> None:
    from router.training.base import BaseError, load_base

    folder = made_up.write_modernbert(tmp_path / "other")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:3000])
    with pytest.raises(BaseError, match=r"model.safetensors: is damaged or does not fit"):
        load_base(str(folder))


def test_a_tokenizer_with_tokens_that_the_encoder_lacks_is_refused(
    made_up: ModuleType, tmp_path: Path
) -> None:
    from router.training.base import BaseError, load_base

    folder = made_up.write_modernbert(tmp_path / "other")
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokenizer["model"]["vocab"]["kitten"] = 5000
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    with pytest.raises(BaseError, match=r"tokenizer.json: has token ids up to 5000, the encoder"):
        load_base(str(folder))
    del tokenizer["model"]["vocab"]["[CLS]"]
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    with pytest.raises(BaseError, match=r"the vocabulary has no \[CLS\] token"):
        load_base(str(folder))
