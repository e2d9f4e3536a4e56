"""Cut and tokenise encoder inputs to the length the encoder reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from router.domain import EncoderInput
from router.errors import ArtifactError

# A sub-word token of running text is 4 to 5 characters; 32 a token leaves room for white
# space, and anything longer would be cut by the token limit anyway.
_CHARS_PER_TOKEN = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """One tokenised input.

    Attributes:
        ids: Shape ``(tokens,)``, int64: ``[CLS] context text [SEP]``, then every offered tool
            followed by ``[SEP]``.
        text_ids: The part of ``ids`` that is the text's own.
        text_tokens: Tokens of the text alone, before any cut; an estimate for a text longer
            than 32 characters for each token that fits.
        unknown_tokens: Unknown tokens among those of the text that were read.
        truncated: The text was read head and tail only.
    """

    ids: NDArray[np.int64]
    text_ids: NDArray[np.int64]
    text_tokens: int
    unknown_tokens: int
    truncated: bool


class InputTokenizer:
    """Turns encoder inputs into token rows of at most ``max_tokens``.

    Args:
        path: A ``tokenizer.json`` whose vocabulary has ``[CLS]``, ``[SEP]`` and ``[UNK]``.
        max_tokens: Longest row.
        separate_tools: End every tool with ``[SEP]``; otherwise all of them with one.

    Raises:
        ArtifactError: If the file is no tokenizer or lacks one of the three tokens.
    """

    def __init__(self, path: Path, *, max_tokens: int, separate_tools: bool = True) -> None:
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:
            # The library raises bare Exceptions.
            msg = f"{path}: not a tokenizer file"
            raise ArtifactError(msg) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # A caller who types "[SEP]" means five characters, never the end of the text.
        self._tokenizer.encode_special_tokens = True
        self._max_tokens = max_tokens
        self._separate_tools = separate_tools
        self._cls = self._special(path, "[CLS]")
        self._sep = self._special(path, "[SEP]")
        self._unknown = self._special(path, "[UNK]")

    def row(self, item: EncoderInput) -> TokenRow:
        """Return the tokens of one input.

        Tools take at most half of the window, from their start. The text takes what they
        leave; one that does not fit there keeps its head and its tail. What is left then goes
        to the end of the context.
        """
        tools = self._tool_ids(item.tools) if item.tools else []
        text, total, cut = self._bounded_ids(item.text)
        room = self._max_tokens - (3 if tools else 2)
        tools = tools[: room // 2]
        room -= len(tools)
        truncated = cut or len(text) > room
        if len(text) > room:
            head = room // 2
            text = text[:head] + text[len(text) - (room - head) :]
        context: list[int] = []
        if item.context and len(text) < room:
            context = self._bounded_ids(item.context)[0][-(room - len(text)) :]
        ids = [self._cls, *context, *text, self._sep]
        if tools:
            ids += [*tools, self._sep] if tools[-1] != self._sep else tools
        row = np.asarray(ids, dtype=np.int64)
        start = 1 + len(context)
        return TokenRow(
            ids=row,
            text_ids=row[start : start + len(text)],
            text_tokens=total,
            unknown_tokens=text.count(self._unknown),
            truncated=truncated,
        )

    @property
    def vocabulary_size(self) -> int:
        """How many token ids there are."""
        size: int = self._tokenizer.get_vocab_size()
        return size

    def estimate(self, item: EncoderInput) -> int:
        """Return a rough token count of an input without tokenising it."""
        chars = len(item.text) + len(item.context) + len(item.tools or "")
        return min(self._max_tokens, 2 + chars // 4)

    def _bounded_ids(self, text: str) -> tuple[list[int], int, bool]:
        """Return ids, token count before any cut, and whether the text was cut."""
        limit = self._max_tokens * _CHARS_PER_TOKEN
        if len(text) <= limit:
            ids = self._ids(text)
            return ids, len(ids), False
        ids = self._ids(text[: limit // 2]) + self._ids(text[-limit // 2 :])
        return ids, max(len(ids), len(ids) * len(text) // limit), True

    def _tool_ids(self, tools: str) -> list[int]:
        # Only a start of the tools can fit, so only a start is tokenised.
        start = tools[: self._max_tokens * _CHARS_PER_TOKEN]
        if not self._separate_tools:
            return self._ids(start)
        encodings = self._tokenizer.encode_batch(start.splitlines(), add_special_tokens=False)
        return [number for e in encodings for number in (*e.ids, self._sep)]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _special(self, path: Path, token: str) -> int:
        number: int | None = self._tokenizer.token_to_id(token)
        if number is None:
            msg = f"{path}: the vocabulary has no {token} token"
            raise ArtifactError(msg)
        return number
