"""Make the texts an encoder should decline: other languages, machine output, noise.

Training on such texts beside ordinary ones is outlier exposure (Hendrycks et al.,
arXiv:1812.04606). Foreign sentences come from the translations that Django ships
(BSD-3-Clause), noise from generators. What the evaluation asks is made by other generators
and read from other sources, so that it measures what was not drilled.
"""

from __future__ import annotations

import base64
import gettext
import random
import re
import string
from collections.abc import Callable, Sequence
from pathlib import Path

MIN_FOREIGN_CHARS = 12
_PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|\{\w*\}|%[sd]|<[^>]*>|&\w+;")
_CONSONANTS = "bcdfghjklmnpqrstvwxz"
_VOWELS = "aeiouy"


def foreign_texts(*, rng: random.Random, per_language: int, without: str = "en") -> list[str]:
    """Return sentences in some 90 languages, shuffled.

    Args:
        rng: Chooses them.
        per_language: Most of one locale.
        without: Locales that start with this code are left out.

    Raises:
        RuntimeError: If Django is not installed.
    """
    try:
        import django
    except ImportError as error:
        msg = "the foreign sentences are missing: pip install -e '.[train]' brings Django"
        raise RuntimeError(msg) from error
    by_locale: dict[str, dict[str, None]] = {}
    folder = Path(django.__file__).parent
    for path in sorted(folder.glob("**/locale/*/LC_MESSAGES/django.mo")):
        locale = path.parts[-3]
        if locale.split("_")[0] == without:
            continue
        texts = by_locale.setdefault(locale, {})
        with path.open("rb") as file:
            catalogue = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined] # noqa: SLF001 - gettext offers no listing
        for original, translated in catalogue.items():
            text = " ".join(_PLACEHOLDER.sub(" ", translated).split())
            if original and translated != original and len(text) >= MIN_FOREIGN_CHARS:
                texts[text] = None
    chosen = [
        text
        for locale in sorted(by_locale)
        for text in rng.sample(sorted(by_locale[locale]), min(per_language, len(by_locale[locale])))
    ]
    # Interface labels are short; people also write two sentences.
    joined = [f"{a} {b}" for a, b in zip(chosen[::3], chosen[1::3], strict=False)]
    rng.shuffle(chosen)
    return chosen + [text for text in joined if len(text) < 400]


def strange_texts(*, rng: random.Random, rows: int, words: Sequence[str]) -> list[str]:
    """Return noise and machine output, about ``rows`` texts, all kinds equally often.

    Args:
        rng: Makes them.
        rows: How many.
        words: Ordinary words, which some kinds garble.
    """
    return [_KINDS[i % len(_KINDS)](rng, words) for i in range(rows)]


def _letters(rng: random.Random, words: Sequence[str]) -> str:
    del words
    alphabet = rng.choice((_CONSONANTS, string.ascii_lowercase, string.ascii_letters))
    return " ".join(
        "".join(rng.choices(alphabet, k=rng.randint(2, 14))) for _ in range(rng.randint(2, 25))
    )


def _syllables(rng: random.Random, words: Sequence[str]) -> str:
    del words
    return " ".join(
        "".join(rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(rng.randint(1, 5)))
        + rng.choice(("", rng.choice(_CONSONANTS)))
        for _ in range(rng.randint(4, 20))
    )


def _keyboard(rng: random.Random, words: Sequence[str]) -> str:
    del words
    row = rng.choice(("qwertyuiop", "zxcvbnm,./", "1234567890-=", "poiuytrewq", "hjkl;'"))
    pieces = []
    for _ in range(rng.randint(2, 12)):
        start = rng.randrange(len(row) - 2)
        pieces.append(row[start : start + rng.randint(2, 8)] * rng.randint(1, 2))
    return rng.choice(("", " ")).join(pieces)


def _garbled(rng: random.Random, words: Sequence[str]) -> str:
    garbled = []
    for word in rng.choices(words, k=rng.randint(4, 25)):
        letters = list(word)
        rng.shuffle(letters)
        garbled.append("".join(letters))
    return " ".join(garbled)


def _repeated(rng: random.Random, words: Sequence[str]) -> str:
    piece = rng.choice(
        (rng.choice(words), rng.choice(string.printable[:94]), "ha", "lol ", "\\x00")
    )
    return piece * rng.randint(10, 80)


def _hexadecimal(rng: random.Random, words: Sequence[str]) -> str:
    del words
    data = rng.randbytes(rng.randint(16, 200)).hex()
    if rng.random() < 0.5:
        return data
    return "\n".join(
        f"{offset:08x}: " + " ".join(data[offset + k : offset + k + 4] for k in range(0, 32, 4))
        for offset in range(0, len(data), 32)
    )


def _encoded(rng: random.Random, words: Sequence[str]) -> str:
    del words
    data = rng.randbytes(rng.randint(24, 300))
    encode = rng.choice((base64.b32encode, base64.urlsafe_b64encode, base64.a85encode))
    text = encode(data).decode()
    width = rng.choice((10_000, 64, 76))
    return "\n".join(text[i : i + width] for i in range(0, len(text), width))


def _identifiers(rng: random.Random, words: Sequence[str]) -> str:
    del words
    pieces = [
        f"{rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}-{rng.getrandbits(48):012x}"
        for _ in range(rng.randint(2, 12))
    ]
    return rng.choice((" ", "\n", ",")).join(pieces)


def _numbers(rng: random.Random, words: Sequence[str]) -> str:
    del words
    columns, separator = rng.randint(2, 9), rng.choice((",", "\t", " ", ";"))
    return "\n".join(
        separator.join(f"{rng.uniform(-1e4, 1e4):.{rng.randint(0, 4)}f}" for _ in range(columns))
        for _ in range(rng.randint(3, 20))
    )


def _access_log(rng: random.Random, words: Sequence[str]) -> str:
    return "\n".join(
        f"{rng.randint(1, 250)}.{rng.randint(0, 250)}.{rng.randint(0, 250)}.{rng.randint(1, 250)}"
        f" - - [{rng.randint(1, 28):02}/Jun/2024:{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:07"
        f' +0000] "{rng.choice(("GET", "POST", "PUT"))} /{rng.choice(words)}/{rng.choice(words)}'
        f' HTTP/1.1" {rng.choice((200, 302, 404, 500))} {rng.randint(100, 90000)}'
        for _ in range(rng.randint(3, 12))
    )


def _system_log(rng: random.Random, words: Sequence[str]) -> str:
    return "\n".join(
        f"Jun {rng.randint(1, 28)} {rng.randint(0, 23):02}:{rng.randint(0, 59):02}:"
        f"{rng.randint(0, 59):02} host{rng.randint(1, 99)}"
        f" {rng.choice(words)}[{rng.randint(1, 9999)}]: {rng.choice(('error', 'notice'))}:"
        f" {rng.choice(words)}={rng.getrandbits(24):x} {rng.choice(words)}"
        f" code {rng.randint(-99, 255)}"
        for _ in range(rng.randint(3, 12))
    )


def _stack_trace(rng: random.Random, words: Sequence[str]) -> str:
    package = ".".join(rng.choices(words, k=3))
    return f"{package}.{rng.choice(words).title()}Exception: {rng.getrandbits(20):x}\n" + "\n".join(
        f"\tat {package}.{rng.choice(words).title()}.{rng.choice(words)}"
        f"({rng.choice(words).title()}.java:{rng.randint(1, 900)})"
        for _ in range(rng.randint(3, 14))
    )


def _structured_log(rng: random.Random, words: Sequence[str]) -> str:
    return "\n".join(
        f'{{"ts":{rng.randint(10**9, 2 * 10**9)},"lvl":"{rng.choice(("i", "w", "e"))}",'
        f'"{rng.choice(words)}":{rng.randint(0, 9999)},"id":"{rng.getrandbits(40):x}",'
        f'"msg":"{rng.choice(words)}_{rng.choice(words)}"}}'
        for _ in range(rng.randint(3, 12))
    )


_KINDS: tuple[Callable[[random.Random, Sequence[str]], str], ...] = (
    _letters,
    _syllables,
    _keyboard,
    _garbled,
    _repeated,
    _hexadecimal,
    _encoded,
    _identifiers,
    _numbers,
    _access_log,
    _system_log,
    _stack_trace,
    _structured_log,
)
