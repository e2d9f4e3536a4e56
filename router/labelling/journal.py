"""Keep every answer a model gave, so that no call is made twice.

Answers are appended as they arrive, each under a hash of all that decides it: the server, the
model and the request with its settings. What was asked before an interruption is found again;
what was asked otherwise is not, so answers of two settings never mix.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from router.errors import ConfigError

_START = b'{"key": "'  # of every line


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model said.

    Attributes:
        text: The answer, empty where there is none that can be used.
        finish_reason: Why it ended; ``length`` = cut at the most tokens, ``invalid`` = empty
            or against its schema.
        prompt_tokens: Tokens read, >= 0, None where the server does not count.
        completion_tokens: Tokens written, >= 0, None where the server does not count.
    """

    text: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None


class Journal:
    """Answers by the key of their request, in a file of one JSON object a line.

    A context manager; only one process at a time may hold a file.

    Args:
        path: Created where it does not exist.

    Attributes:
        reused: Answers found so far.

    Raises:
        ConfigError: If it cannot be opened, is in use, or is no such file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._answers: dict[str, Answer] = {}
        self.reused = 0
        try:
            self._file: BinaryIO = path.open("a+b")
        except OSError as error:
            msg = f"{path}: cannot be written: {error.strerror}"
            raise ConfigError(msg) from error
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # What a full disk did not take is tried once more; `keep` has told of it already.
        with suppress(OSError):
            self._file.close()

    def find(self, key: str, usable: Callable[[Answer], bool] | None = None) -> Answer | None:
        """Return an answer given before, None where there is none that is ``usable``."""
        known = self._answers.get(key)
        if known is None or (usable is not None and not usable(known)):
            return None
        self.reused += 1
        return known

    def keep(self, key: str, answer: Answer) -> None:
        """Append an answer; it is on the disk when this returns.

        Raises:
            ConfigError: If it cannot be written, a full disk for example.
        """
        line = json.dumps({"key": key, **asdict(answer)}).encode("ascii") + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            msg = f"{self._path}: cannot be written: {error.strerror}"
            raise ConfigError(msg) from error
        self._answers[key] = answer

    def _read(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            msg = f"{self._path}: another run is writing it"
            raise ConfigError(msg) from error
        self._file.seek(0)
        content = self._file.read()
        whole, _, torn = content.rpartition(b"\n")
        for number, line in enumerate(whole.split(b"\n") if whole else (), start=1):
            try:
                row = json.loads(line)
                key, answer = row.pop("key"), _answer(row)
            except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
                raise ConfigError(_foreign(self._path, number)) from error
            self._answers[key] = answer
        if torn:
            # A run that was killed while it wrote; that one answer is asked for again. Anything
            # else at the end is somebody's file, and none of ours to cut.
            if not torn.startswith(_START[: len(torn)]):
                raise ConfigError(_foreign(self._path, content.count(b"\n") + 1))
            self._file.truncate(len(content) - len(torn))


def _answer(row: dict[str, Any]) -> Answer:
    answer = Answer(**row)
    counts = (answer.prompt_tokens, answer.completion_tokens)
    if not (
        isinstance(answer.text, str)
        and isinstance(answer.finish_reason, str)
        and all(count is None or type(count) is int for count in counts)
    ):
        raise TypeError
    return answer


def _foreign(path: Path, number: int) -> str:
    return f"{path}, line {number}: is no answer of a model"
