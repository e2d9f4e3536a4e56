"""Make up texts that no router should claim to understand."""

from __future__ import annotations

import base64
import random

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MASHED_KEYS = "asdfghjklqwertzxcvbnm"
_LEVELS = ("INFO", "WARN", "ERROR", "DEBUG")
_PARTS = ("kubelet", "nginx", "postgres", "sshd", "systemd", "etcd", "worker")
_EVENTS = (
    "GET /api/v{a}/items/{b} {c} {d}ms",
    "connection from 10.{a}.{c}.{b} port {d} closed [preauth]",
    "pool exhausted size={a} waiting={b} trace={x}",
    "segment {x} flushed bytes={d} in {a}ms",
    "OOMKilled container={x} exit=137 restarts={a}",
)


def gibberish(rows: int, rng: random.Random) -> list[str]:
    """Return lines of random letters and of mashed keys, in words of ordinary length."""
    return [
        " ".join(
            "".join(rng.choices(_LETTERS if row % 2 else _MASHED_KEYS, k=rng.randint(3, 12)))
            for _ in range(rng.randint(4, 20))
        )
        for row in range(rows)
    ]


def base64_blobs(rows: int, rng: random.Random) -> list[str]:
    """Return random bytes in base64, 40 to 800 characters."""
    return [base64.b64encode(rng.randbytes(rng.randint(30, 600))).decode() for _ in range(rows)]


def log_dumps(rows: int, rng: random.Random) -> list[str]:
    """Return excerpts of server logs, 4 to 14 lines."""
    return ["\n".join(_line(rng) for _ in range(rng.randint(4, 14))) for _ in range(rows)]


def oversize(rows: int, texts: list[str], chars: int) -> list[str]:
    """Return ordinary texts strung together until each has at least ``chars`` characters."""
    made = []
    for row in range(rows):
        text, part = "", row
        while len(text) < chars:
            text = f"{text}\n\n{texts[part % len(texts)]}".strip()
            part += 7
        made.append(text)
    return made


def _line(rng: random.Random) -> str:
    event = rng.choice(_EVENTS).format(
        a=rng.randint(1, 9),
        b=rng.randint(10, 250),
        c=rng.choice((200, 204, 301, 404, 500)),
        d=rng.randint(1000, 65000),
        x=f"{rng.getrandbits(48):012x}",
    )
    clock = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
    level, part = rng.choice(_LEVELS), rng.choice(_PARTS)
    return (
        f"2026-03-{rng.randint(1, 28):02}T{clock}.{rng.randint(0, 999):03}Z {level} {part} {event}"
    )
