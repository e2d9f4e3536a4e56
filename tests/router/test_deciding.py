"""A cost limit is held against everything an upstream reads."""

import math

from router.deciding import prompt_tokens
from router.domain import Message, Question, QuestionType, Request, Role, State, Tool


def request(**fields: object) -> Request:
    return Request(tenant="default", deadline_s=math.inf, **fields)


def user(content: str) -> Message:
    return Message(role=Role.USER, content=content)


def test_four_bytes_count_as_a_token() -> None:
    assert prompt_tokens(request(messages=(user("a" * 400),))) == 101


def test_a_long_history_counts_though_the_last_turn_is_short() -> None:
    short = request(messages=(user("Summarise it, please."),))
    long = request(
        messages=(
            Message(role=Role.SYSTEM, content="s" * 4000),
            user("h" * 200_000),
            Message(role=Role.ASSISTANT, content="Yes?"),
            user("Summarise it, please."),
        )
    )
    assert prompt_tokens(long) - prompt_tokens(short) == (4000 + 200_000 + 4) // 4


def test_tools_state_and_questions_count() -> None:
    bare = request(messages=(user("x"),))
    tool = Tool(name="t", description="d" * 400, parameters={"type": "object"})
    assert prompt_tokens(request(messages=(user("x"),), tools=(tool,))) > 100 > prompt_tokens(bare)
    question = Question(
        type=QuestionType.CHOICE, instructions="i" * 40, options=(("a", "b" * 40), ("c", "d" * 40))
    )
    asked = request(state=State(text="s" * 40, is_json=False), questions={"q": question})
    assert prompt_tokens(asked) == (40 * 4 + 2) // 4 + 1
