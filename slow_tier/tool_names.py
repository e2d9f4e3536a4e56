"""Spell tool names the way every chat-completion server accepts.

OpenAI's API reference allows letters, digits, ``_`` and ``-``; function sets in the wild, such as
those of the Berkeley Function Calling Leaderboard, also have dots (``math.factorial``).
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_NAME_CHARACTERS = 64


def names_on_the_wire(names: Iterable[str]) -> dict[str, str]:
    """Return what each name is called on the wire, by name, in order; no two are the same.

    A name without a dot stays as it is. In any other each dot becomes ``_``, with a number at
    its end where that is taken. The same names in the same order are always spelt alike.

    Args:
        names: Unique, 1 to 64 characters of ``[A-Za-z0-9_.-]``.
    """
    names = tuple(names)
    spelt = {name: name for name in names if "." not in name}
    taken = set(spelt)
    for name in names:
        if name in spelt:
            continue
        plain = candidate = name.replace(".", "_")
        number = 1
        while candidate in taken:
            number += 1
            suffix = f"_{number}"
            candidate = plain[: MAX_NAME_CHARACTERS - len(suffix)] + suffix
        taken.add(candidate)
        spelt[name] = candidate
    return {name: spelt[name] for name in names}
