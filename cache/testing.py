"""Stand in for the clock of the cache in tests."""

from __future__ import annotations


class ScriptedClock:
    """A clock that moves only when told, backwards too.

    Attributes:
        now_s: What the next call returns, in seconds.
    """

    def __init__(self, now_s: float = 1_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """Return the scripted time in seconds."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Move by ``seconds``; a negative number steps back."""
        self.now_s += seconds
