"""Typed questions become a schema; answers are those it allows or errors that name the id."""

import json
import math

import pytest

from slow_tier.completion import CompletionRequest, TokenLogprob
from slow_tier.errors import InvalidAnswer
from slow_tier.json_schema import JsonSchema
from slow_tier.questions import (
    Option,
    Question,
    parse_answers,
    question_messages,
    question_schema,
)

TEAM = Question(
    kind="choice",
    instructions="Who handles it?",
    options=(Option(label="billing", description="money"), Option(label="technical")),
)
ANGER = Question(kind="score", instructions="How angry?", levels=("calm", "cross", "furious"))
URGENT = Question(kind="noul", instructions="The matter is urgent.")
ALL = {"urgent": URGENT, "team": TEAM, "anger": ANGER}


def chosen(token, probability, **others):
    alternatives = {token: math.log(probability)} | {k: math.log(p) for k, p in others.items()}
    return TokenLogprob(token=token, logprob=math.log(probability), alternatives=alternatives)


def test_the_schema_is_strict_sorted_and_allows_nothing_but_the_answers():
    schema = question_schema(ALL)
    assert list(schema["properties"]) == ["anger", "team", "urgent"]
    assert schema == {
        "type": "object",
        "properties": {
            "anger": {"type": "integer", "enum": [0, 1, 2]},
            "team": {"type": "string", "enum": ["billing", "technical"]},
            "urgent": {"type": "boolean", "enum": [False, True]},
        },
        "required": ["anger", "team", "urgent"],
        "additionalProperties": False,
    }


def test_messages_and_schema_make_a_request_and_do_not_depend_on_the_order_asked():
    messages = question_messages("My invoice is wrong", ALL)
    CompletionRequest(
        messages=messages,
        temperature=0.0,
        max_output_tokens=9,
        response_schema=JsonSchema(question_schema(ALL)),
    )
    assert messages == question_messages("My invoice is wrong", dict(sorted(ALL.items())))
    assert [message.role for message in messages] == ["system", "user"]
    assert messages[1].content == "My invoice is wrong"
    for words in ('"billing": money', '"technical"', "2: furious", "true: yes", "How angry?"):
        assert words in messages[0].content


def test_without_logprobs_there_are_answers_but_no_numbers_nobody_gave():
    answers = parse_answers('{"anger": 2, "team": "billing", "urgent": true}', ALL)
    assert list(answers) == ["anger", "team", "urgent"]
    assert answers["team"].choice == "billing"
    assert answers["anger"].score == 2.0
    assert answers["urgent"].noul == 1.0
    for answer in answers.values():
        assert (dict(answer.probabilities), answer.confidence) == ({}, None)


def test_logprobs_give_probabilities_an_expected_score_and_a_confidence():
    text = '{"anger": 1, "urgent": false}'
    tokens = [
        chosen('{"anger":', 1.0),
        chosen(" 1", 0.5, **{" 0": 0.25, " 2": 0.25}),
        chosen(', "urgent":', 1.0),
        chosen(" false", 0.75, **{" true": 0.25}),
        chosen("}", 1.0),
    ]
    questions = {"anger": ANGER, "urgent": URGENT}
    answers = parse_answers(text, questions, token_logprobs=tokens)
    assert answers["anger"].probabilities == pytest.approx({"0": 0.25, "1": 0.5, "2": 0.25})
    assert answers["anger"].score == pytest.approx(1.0)
    # H = 0.5 ln 2 + 0.5 ln 4 = 1.5 ln 2
    assert answers["anger"].confidence == pytest.approx(1 - 1.5 * math.log(2) / math.log(3))
    assert answers["urgent"].noul == pytest.approx(0.25)
    assert answers["urgent"].probabilities == pytest.approx({"false": 0.75, "true": 0.25})


def test_the_label_is_the_most_probable_one_whatever_was_sampled():
    tokens = [
        chosen('{"team": "', 1.0),
        chosen("billing", 0.2, technical=0.8),
        chosen('"}', 1.0),
    ]
    answer = parse_answers('{"team": "billing"}', {"team": TEAM}, token_logprobs=tokens)["team"]
    assert answer.choice == "technical"
    assert answer.probabilities == pytest.approx({"billing": 0.2, "technical": 0.8})


@pytest.mark.parametrize(("written", "other"), [("billing", "technical"), ("technical", "billing")])
def test_between_equally_probable_labels_the_written_one_stands(written, other):
    tokens = [chosen('{"team": "', 1.0), chosen(written, 0.5, **{other: 0.5}), chosen('"}', 1.0)]
    text = json.dumps({"team": written})
    assert parse_answers(text, {"team": TEAM}, token_logprobs=tokens)["team"].choice == written


def test_even_odds_mean_no_confidence_and_certainty_means_full_confidence():
    for probability, confidence in ((0.5, 0.0), (1.0, 1.0)):
        rest = {"true": 0.5} if probability < 1.0 else {}
        tokens = [chosen('{"u": ', 1.0), chosen("false", probability, **rest), chosen("}", 1.0)]
        answer = parse_answers('{"u": false}', {"u": URGENT}, token_logprobs=tokens)["u"]
        assert answer.confidence == pytest.approx(confidence, abs=1e-12)


def test_repaired_json_gives_the_answer_without_probabilities_that_no_longer_fit():
    text = "Sure: {'u': true}"
    tokens = [chosen("Sure: {'u': ", 1.0), chosen("true", 0.6, false=0.4), chosen("}", 1.0)]
    answer = parse_answers(text, {"u": URGENT}, token_logprobs=tokens)["u"]
    assert (answer.noul, dict(answer.probabilities)) == (1.0, {})


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        ('{"anger": 3, "team": "billing", "urgent": true}', "anger"),
        ('{"anger": true, "team": "billing", "urgent": true}', "anger"),
        ('{"anger": 1, "team": "Billing", "urgent": true}', "team"),
        ('{"anger": 1, "team": null, "urgent": true}', "team"),
        ('{"anger": 1, "team": "billing"}', "urgent"),
        ('{"anger": 1, "team": "billing", "urgent": 1}', "urgent"),
        ('{"anger": 1, "urgent": true, "team": "bill', "team"),
    ],
)
def test_an_answer_that_is_not_allowed_is_invalid_and_names_the_question(text, culprit):
    with pytest.raises(InvalidAnswer, match=f"upstream 'up': '{culprit}'") as raised:
        parse_answers(text, ALL, upstream="up")
    assert raised.value.field == culprit


@pytest.mark.parametrize("text", ["", "I think it is urgent.", "[]", "NaN", "{" * 50_000])
def test_text_that_is_no_object_is_invalid(text):
    with pytest.raises(InvalidAnswer):
        parse_answers(text, ALL)


def test_an_extra_key_is_invalid_and_not_quoted():
    with pytest.raises(InvalidAnswer) as raised:
        parse_answers('{"u": true, "what the user said": 1}', {"u": URGENT})
    assert "said" not in str(raised.value)


def choice(*labels, **more):
    options = tuple(Option(label=label) for label in labels)
    return Question(**({"kind": "choice", "instructions": "?", "options": options} | more))


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        (choice("a"), "options must be 2 to 255, got 1"),
        (choice(*map(str, range(256))), "options must be 2 to 255, got 256"),
        (choice("a", "b", "a"), "two options have the same label"),
        (choice("a", " "), "label must not be empty"),
        (choice("a", "b", instructions=" "), "instructions must not be empty"),
        (choice("a", "b", kind="poll"), "kind must be one of choice, score, noul"),
        (choice("a", "b", kind="noul"), "options must be empty for a noul"),
        (choice("a", "b", levels=("x", "y")), "levels must be empty for a choice"),
        (Question(kind="score", instructions="?", levels=("x",)), "levels must be 2 to 255, got 1"),
    ],
)
def test_a_bad_question_is_refused_by_id_and_limit(question, problem):
    for use in (question_schema, lambda q: question_messages("s", q)):
        with pytest.raises(ValueError, match=f"question 'bad': .*{problem}"):
            use({"good": URGENT, "bad": question})


def test_255_options_are_allowed():
    labels = [str(i) for i in range(255)]
    assert question_schema({"q": choice(*labels)})["properties"]["q"]["enum"] == labels


def test_no_question_and_no_state_are_refused_by_name():
    with pytest.raises(ValueError, match="questions: must hold at least one"):
        question_schema({})
    with pytest.raises(ValueError, match="question '': the id must not be empty"):
        question_schema({"": URGENT})
    with pytest.raises(ValueError, match="state: must not be empty"):
        question_messages(" \n", ALL)


def test_an_id_with_quotes_survives_the_round_trip():
    questions = {'say "x"': URGENT}
    text = json.dumps({'say "x"': True})
    assert parse_answers(text, questions)['say "x"'].noul == 1.0
