"""What the encoder reads of a request."""

import math

from router.domain import EncoderInput, Message, Question, QuestionType, Request, Role, State, Tool
from router.encoder_text import encoder_input


def request(**fields: object) -> Request:
    return Request(tenant="default", deadline_s=math.inf, **fields)


def turn(role: Role, content: str) -> Message:
    return Message(role=role, content=content)


def test_a_prompt_is_read_as_it_is() -> None:
    seen = encoder_input(request(messages=(turn(Role.USER, "  two\n\nlines "),)))
    assert seen == EncoderInput(text="  two\n\nlines ", context="", tools=None)


def test_the_last_user_turn_is_the_text_and_the_others_are_marked_context() -> None:
    seen = encoder_input(
        request(
            messages=(
                turn(Role.SYSTEM, "Be brief."),
                turn(Role.USER, "Who wrote Faust?"),
                turn(Role.ASSISTANT, "Goethe."),
                turn(Role.USER, "When?"),
            )
        )
    )
    assert seen.text == "When?"
    assert seen.context == "user: Who wrote Faust?\nassistant: Goethe."


def test_turns_after_the_last_user_turn_stay_in_the_context() -> None:
    seen = encoder_input(
        request(messages=(turn(Role.USER, "Weather?"), turn(Role.TOOL, "rain")), tools=())
    )
    assert seen == EncoderInput(text="Weather?", context="tool: rain", tools="")


def test_a_json_state_is_made_compact_and_followed_by_the_instructions() -> None:
    seen = encoder_input(
        request(
            state=State(text='{ "b": 1,\n "a": [1, 2], "ü": "é" }', is_json=True),
            questions={"q": Question(type=QuestionType.NOUL, instructions="Is it late?")},
        )
    )
    assert seen.text == '{"b":1,"a":[1,2],"ü":"é"}\nIs it late?'


def test_tools_are_one_line_each_whatever_their_description() -> None:
    tools = (
        Tool(name="get_weather", description="Weather\n of a   city", parameters={}),
        Tool(name="ping", description="", parameters={}),
    )
    seen = encoder_input(request(messages=(turn(Role.USER, "x"),), tools=tools))
    assert seen.tools == "get_weather: Weather of a city\nping"
