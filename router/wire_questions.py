"""Conversion of typed questions from the wire into domain questions."""

from __future__ import annotations

from collections.abc import Mapping

from router.config import LimitsConfig
from router.domain import Question, QuestionType
from router.errors import InvalidRequest
from router.field_checks import at_most, element, input_size, text_bytes, written_text
from router.v1 import router_pb2 as pb

MAX_QUESTIONS = 64
MAX_ID_CHARACTERS = 64
MIN_OPTIONS = 2
MAX_OPTIONS = 255


def questions_from(
    messages: Mapping[str, pb.Question], limits: LimitsConfig
) -> dict[str, Question]:
    """Validate typed questions.

    Returns:
        Questions by id, sorted by id.

    Raises:
        InvalidRequest: Naming ``questions["<id>"]`` and what is wrong with it.
    """
    at_most(len(messages), MAX_QUESTIONS, field="questions", unit="questions")
    questions = {}
    size_bytes = 0
    for name in sorted(messages):
        written_text(name, field="questions")
        at_most(
            len(name), MAX_ID_CHARACTERS, field="questions", unit="characters in a question's id"
        )
        path = element("questions", name)
        size_bytes += written_text(messages[name].instructions, field=f"{path}.instructions")
        kind, options, options_bytes = _options(messages[name], path)
        size_bytes += options_bytes
        questions[name] = Question(
            type=kind, instructions=messages[name].instructions, options=options
        )
    input_size(size_bytes, limits, field="questions")
    return questions


def _options(
    message: pb.Question, path: str
) -> tuple[QuestionType, tuple[tuple[str, str], ...], int]:
    """Return type and options together with the size of their texts, bytes."""
    kind = message.WhichOneof("type")
    if kind == "choice":
        return QuestionType.CHOICE, *_choice(message.choice, f"{path}.choice.options")
    if kind == "score":
        return QuestionType.SCORE, *_score(message.score, f"{path}.score.criteria")
    if kind == "noul":
        return QuestionType.NOUL, (), 0
    msg = "needs a type: choice, score or noul"
    raise InvalidRequest(msg, field=path)


def _choice(message: pb.Choice, path: str) -> tuple[tuple[tuple[str, str], ...], int]:
    _count(len(message.options), path, unit="options")
    size_bytes = 0
    options: dict[str, str] = {}
    for index, option in enumerate(message.options):
        where = element(path, index)
        size_bytes += written_text(option.label, field=f"{where}.label")
        size_bytes += text_bytes(option.description, field=f"{where}.description")
        if option.label in options:
            msg = "is the label of an earlier option; labels must be unique"
            raise InvalidRequest(msg, field=f"{where}.label")
        options[option.label] = option.description
    return tuple(options.items()), size_bytes


def _score(message: pb.Score, path: str) -> tuple[tuple[tuple[str, str], ...], int]:
    _count(len(message.criteria), path, unit="levels")
    size_bytes = sum(
        written_text(criterion, field=element(path, level))
        for level, criterion in enumerate(message.criteria)
    )
    return tuple((str(level), text) for level, text in enumerate(message.criteria)), size_bytes


def _count(count: int, path: str, *, unit: str) -> None:
    if not MIN_OPTIONS <= count <= MAX_OPTIONS:
        msg = f"has {count} {unit}, must be {MIN_OPTIONS} to {MAX_OPTIONS}"
        raise InvalidRequest(msg, field=path)
