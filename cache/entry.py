"""Define the values that the cache takes, holds or returns.

Two requests share an answer only inside one :class:`Namespace`, and an exact hit needs equal
:func:`request_key`. Both are SHA-256 over canonical JSON, so no choice of field values makes
two different ones collide (a plain join would: ``("a", "bc")`` against ``("ab", "c")``).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from cache.composition import compose
from cache.errors import EntryError, NamespaceError, RequestError

MAX_NESTING = 100
"""Deepest nesting of lists and mappings that :func:`request_key` accepts."""

# Words, digits, and punctuation that neither quotes nor delimits code. An apostrophe counts
# only between letters ("what's"), because elsewhere it opens a string literal.
_PROSE_LINE = re.compile(
    r"(?:[^\W_]|[ \t\u00a0\u2009\u202f.,?!:%$€£-]|(?<=[^\W\d_])['\u2019](?=[^\W\d_]))*"
)
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")


class MissReason(StrEnum):
    """Why a semantic lookup found nothing; the values are metric labels."""

    EMPTY = "empty"
    REMOVED_MEANWHILE = "removed_meanwhile"
    BELOW_THRESHOLD = "below_threshold"
    UNSUITABLE = "unsuitable"
    GUARD_NUMBERS = "guard_numbers"
    GUARD_UNITS = "guard_units"
    GUARD_NEGATION = "guard_negation"
    GUARD_ORDER = "guard_order"
    GUARD_WORDS = "guard_words"


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """Everything besides the request that can change an answer.

    Attributes:
        tenant: Owner of the entries; not empty.
        encoder_revision: Fingerprint of the encoder whose embeddings are compared.
        system_prompt: Hash of the system prompt.
        question_schema: Hash of the typed questions or response schema.
        answer_settings: Hash of what else the caller says about how to answer, such as the
            sampling temperature.
        tool_set: Hash of the offered tools.
        model_revisions: Hash of the revisions of all models that may answer.
        variant: Experiment variant, where it changes the answer.
        digest: SHA-256 in hex over all of the above, computed.
    """

    tenant: str
    encoder_revision: str
    system_prompt: str
    question_schema: str
    answer_settings: str
    tool_set: str
    model_revisions: str
    variant: str
    digest: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.tenant:
            msg = "namespace: tenant must not be empty"
            raise NamespaceError(msg)
        parts = (
            self.tenant,
            self.encoder_revision,
            self.system_prompt,
            self.question_schema,
            self.answer_settings,
            self.tool_set,
            self.model_revisions,
            self.variant,
        )
        object.__setattr__(self, "digest", _digest(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEntry:
    """One stored answer.

    Attributes:
        key: :func:`request_key` of the request that was answered.
        namespace: Where the answer holds.
        text: What the guard compares with the text of a later request.
        payload: The serialised answer; opaque here.
        decision_id: Decision that produced the answer.
        model_revision: Revision of the model that wrote the answer.
        created_at_s: When it was stored, in seconds of the cache's clock.
        expires_at_s: First moment at which it is no longer served.
    """

    key: str
    namespace: Namespace
    text: str
    payload: bytes
    decision_id: str
    model_revision: str
    created_at_s: float
    expires_at_s: float

    def __post_init__(self) -> None:
        if not self.key:
            msg = "entry: key must not be empty"
            raise EntryError(msg)
        if not self.created_at_s < self.expires_at_s < math.inf:
            msg = (
                f"entry: expires_at_s must be finite and after created_at_s "
                f"({self.created_at_s}), got {self.expires_at_s}"
            )
            raise EntryError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheHit:
    """An answer that may be served.

    Attributes:
        entry: The stored answer.
        kind: Whether the request was the same or only close.
        similarity: Cosine in [-1, 1] between the two embeddings; 1.0 for an exact hit.
        age_s: Seconds since the answer was stored, >= 0.
    """

    entry: CacheEntry
    kind: Literal["exact", "semantic"]
    similarity: float
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheMiss:
    """No answer may be served.

    Attributes:
        reason: What the closest entry failed at.
        similarity: Cosine in [-1, 1] with the closest entry; None when there is none.
    """

    reason: MissReason
    similarity: float | None


def text_bytes(*texts: str) -> int:
    """Return the bytes of ``texts`` in UTF-8, of lone surrogates too, which have no such form."""
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def canonical_text(text: str) -> str:
    r"""Return ``text`` in the form under which equal questions are equal strings.

    Unicode becomes NFC, line ends become ``\n``, white space at the end goes, blank lines at
    the start go. A single line also loses its indentation; the first of several lines keeps
    it, because in code it says how the lines nest. Inner runs of white space become one space
    only in a single line of plain prose (letters, digits, ``. , ? ! : % $ € £ -`` and inner
    apostrophes): anywhere else they may stand in code or in a string literal, where they
    change the answer. Applying it twice changes nothing.
    """
    composed = compose(text).replace("\r\n", "\n").replace("\r", "\n")
    lines = _BLANK_LINES.sub("", composed).rstrip()
    if "\n" in lines:
        return lines
    line = lines.lstrip()
    return " ".join(line.split()) if _PROSE_LINE.fullmatch(line) else line


def request_key(namespace: Namespace, request: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hex, that identifies ``request`` inside ``namespace``.

    The order of keys does not matter and strings are compared in NFC. White space is kept: it
    carries meaning in schemas and code, so the caller applies :func:`canonical_text` to the
    fields that hold a person's text.

    Args:
        namespace: Enters the key, so keys of two namespaces never meet.
        request: JSON values: mappings with string keys, sequences, strings, booleans,
            integers, finite floats, None; nested at most :data:`MAX_NESTING` deep.

    Raises:
        RequestError: If a value is not JSON, not finite or nested too deeply, or if two keys
            of a mapping are equal in NFC. Names the top-level field.
    """
    # Typed as the worst that may arrive, so that the check below is not "unreachable".
    fields: Mapping[Any, Any] = request
    canonical = {}
    for name, value in fields.items():
        if not isinstance(name, str):
            msg = f"request: field names must be strings, got {type(name).__name__}"
            raise RequestError(msg)
        canonical[name] = _canonical_json(value, field_name=name, depth=1)
    return _digest((namespace.digest, canonical))


def _canonical_json(value: Any, *, field_name: str, depth: int) -> Any:
    if depth > MAX_NESTING:
        msg = f"request: {field_name!r} is nested deeper than {MAX_NESTING} levels"
        raise RequestError(msg)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return compose(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            msg = f"request: {field_name!r} holds a number that is not finite"
            raise RequestError(msg)
        return value
    if isinstance(value, Mapping):
        return _canonical_mapping(value, field_name=field_name, depth=depth)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_canonical_json(item, field_name=field_name, depth=depth + 1) for item in value]
    msg = f"request: {field_name!r} holds a {type(value).__name__}, which is not JSON"
    raise RequestError(msg)


def _canonical_mapping(value: Mapping[Any, Any], *, field_name: str, depth: int) -> dict[str, Any]:
    canonical = {}
    for key, item in value.items():
        # json.dumps would turn the key 1 into "1" and so merge two different requests.
        if not isinstance(key, str):
            msg = f"request: {field_name!r} has a key of type {type(key).__name__}, not str"
            raise RequestError(msg)
        composed = compose(key)
        if composed in canonical:
            msg = f"request: {field_name!r} has two keys that are equal in Unicode NFC"
            raise RequestError(msg)
        canonical[composed] = _canonical_json(item, field_name=field_name, depth=depth + 1)
    return canonical


def _digest(value: Any) -> str:
    # ASCII output also gives lone surrogates a distinct form instead of an encoding error.
    encoded = json.dumps(
        value, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(encoded.encode("ascii")).hexdigest()
