"""A tiny encoder and separable rows, made by the tests."""

import json
from pathlib import Path
from typing import Any

WORDS = {
    "fast": ("sunny", "breakfast", "kitten", "hello", "colour", "picnic", "garden", "holiday"),
    "slow": ("theorem", "integral", "lemma", "topology", "manifold", "cohomology", "axiom", "ring"),
    "code": ("python", "compile", "function", "segfault", "pointer", "thread", "mutex", "linker"),
    "law": ("contract", "plaintiff", "statute", "verdict", "appeal", "tort", "clause", "court"),
}
PLAIN = ("please", "tell", "me", "about", "the", "and", "then", "again", "with", "one", "of", "a")
TEMPERATURES = {"fast": 1.0, "slow": 0.2, "code": 0.3, "law": 0.6}


def made_up_rows(*routes: str, each: int = 60) -> list[dict[str, Any]]:
    """Return rows whose words give their route away; some carry a temperature."""
    rows = []
    for route in routes:
        words = WORDS[route]
        for i in range(each):
            first, second = words[i % len(words)], words[(i // len(words)) % len(words)]
            filler = PLAIN[i % len(PLAIN)], PLAIN[(i // 5) % len(PLAIN)]
            text = f"please tell me about the {first} {filler[0]} {second} {filler[1]} {i}"
            rows.append({"text": text, "route": route, "temperature": TEMPERATURES[route]})
    return rows


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_modernbert(folder: Path, *, layers: int = 2, seed: int = 0) -> Path:
    """Write a random ModernBERT of 64 hidden units with a WordPiece of the rows' words."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from transformers import ModernBertConfig, ModernBertModel

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    words = [*special, *letters, *(f"##{letter}" for letter in letters)]
    words += sorted({word for group in WORDS.values() for word in group} | set(PLAIN))
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(seed)
    config = ModernBertConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        num_hidden_layers=layers,
        intermediate_size=64,
        num_attention_heads=1,
        max_position_embeddings=512,
        global_attn_every_n_layers=2,
        pad_token_id=0,
        cls_token_id=2,
        bos_token_id=2,
        sep_token_id=3,
        eos_token_id=3,
    )
    ModernBertModel(config).save_pretrained(folder)
    return folder
