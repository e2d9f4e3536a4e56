"""Probabilities follow the chain rule along the tokens, or there are none."""

import math

import pytest

from slow_tier.completion import TokenLogprob
from slow_tier.logprobs import option_probabilities, value_spans


def token(text, probability=1.0, **others):
    alternatives = {text: probability} | others
    return TokenLogprob(
        token=text,
        logprob=math.log(probability),
        alternatives={name: math.log(p) for name, p in alternatives.items()},
    )


def probabilities(tokens, options, key="q"):
    text = "".join(t.token for t in tokens)
    return option_probabilities(text, tokens, span=value_spans(text)[key], options=options)


def test_spans_cover_exactly_the_values():
    text = ' {"a" : "x}, \\"", "b":[1, {"a": 2}] ,"c":true}\n'
    spans = value_spans(text)
    assert {key: text[start:end] for key, (start, end) in spans.items()} == {
        "a": '"x}, \\""',
        "b": '[1, {"a": 2}]',
        "c": "true",
    }
    assert value_spans("{}") == value_spans("[1]") == {}


def test_one_deciding_token_gives_its_own_distribution():
    tokens = [token('{"q": "'), token("yes", 0.8, no=0.2), token('"}')]
    assert probabilities(tokens, ['"yes"', '"no"']) == pytest.approx([0.8, 0.2])


def test_options_with_a_common_start_are_told_apart_where_they_part():
    tokens = [
        token('{"q": "'),
        token("re", 0.6, other=0.4),
        token("fund", 0.75, turn=0.25),
        token('"}'),
    ]
    options = ['"refund"', '"return"', '"other"']
    assert probabilities(tokens, options) == pytest.approx([0.45, 0.15, 0.4])


def test_an_option_that_is_the_start_of_another_is_settled_by_what_ends_it():
    tokens = [token('{"q": '), token("1", 0.9, **{"7": 0.1}), token("}", 0.5, **{"0": 0.5})]
    assert probabilities(tokens, ["1", "10", "7"]) == pytest.approx([0.45, 0.45, 0.1])


def test_a_token_may_begin_before_the_value():
    tokens = [token('{"q":'), token(' "a', 0.7, **{' "b': 0.3}), token('"}')]
    assert probabilities(tokens, ['"a"', '"b"']) == pytest.approx([0.7, 0.3])


def test_tokens_that_no_option_starts_with_are_left_out_of_the_sum():
    tokens = [token('{"q": '), token("true", 0.45, false=0.15, maybe=0.4), token("}")]
    assert probabilities(tokens, ["false", "true"]) == pytest.approx([0.25, 0.75])


def test_probability_that_the_server_does_not_show_means_no_result():
    shown = [token('{"q": '), token("true", 0.6, false=0.39), token("}")]
    assert probabilities(shown, ["false", "true"]) == pytest.approx([0.39 / 0.99, 0.6 / 0.99])
    hidden = [token('{"q": '), token("true", 0.6, false=0.3), token("}")]
    assert probabilities(hidden, ["false", "true"]) is None


def test_a_token_that_leads_to_two_options_means_no_result():
    tokens = [token('{"q": "'), token("x", 0.5, re=0.5), token('"}')]
    assert probabilities(tokens, ['"x"', '"refund"', '"return"']) is None


def test_tokens_that_do_not_spell_the_text_mean_no_result():
    tokens = [token('{"q": '), token("true"), token("}")]
    text = '{"q":true}'
    span = value_spans(text)["q"]
    assert option_probabilities(text, tokens, span=span, options=["false", "true"]) is None


def test_a_closing_token_behind_the_text_does_no_harm():
    tokens = [token('{"q": '), token("true", 0.5, false=0.5), token("}"), token("<eos>")]
    span = value_spans('{"q": true}')["q"]
    result = option_probabilities('{"q": true}', tokens, span=span, options=["false", "true"])
    assert result == pytest.approx([0.5, 0.5])


def test_a_literal_written_in_another_way_means_no_result():
    tokens = [token('{"q": "'), token("\\u00e9", 0.5, x=0.5), token('"}')]
    assert probabilities(tokens, ['"é"', '"x"']) is None
