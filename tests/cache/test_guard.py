"""The guard refuses what changes the answer, whatever the cosine says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.entry import MissReason
from cache.guard import refusal
from cache.quantities import Quantity, quantities

VOCABULARY = """
a one two second hundred and 3 1,000 5% $7 km not never enable disabled unlock lock useful
useless on off no. isn't the which -4 ½ x² 3.10 per cent minus million dozen
"""
ONES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
WORDS = st.sampled_from(VOCABULARY.split())
TEXTS = st.lists(WORDS, max_size=8).map(" ".join) | st.text(max_size=40)


def test_numbers_read_alike_in_words_and_digits() -> None:
    assert refusal("What are two good books?", "What are 2 good books?") is None
    assert refusal("Spend 1,000 dollars", "spend $1000") is None
    assert refusal("a town of two hundred and five", "a town of 205") is None
    assert refusal("1.5 million people", "1,500,000 people") is None
    assert refusal("a rise of 50%", "a rise of 50 percent") is None
    assert refusal("the 21st century", "the twenty-first century") is None
    assert refusal("wait 10s", "wait ten seconds") is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("top 5 films", "top 10 films"),
        ("top 5 films", "top films"),
        ("python 3.1", "python 3.10"),
        ("is it -5 outside", "is it 5 outside"),
        ("subtract 5 from 10", "subtract 10 from 5"),
        ("10² apples", "102 apples"),
        ("½ cup", "1 cup"),
        ("python2 syntax", "python3 syntax"),
        ("version 1.2.3", "version 1.2.4"),
        ("the hundredth day", "the day"),
        ("two and five", "seven"),
    ],
)
def test_different_numbers_are_refused(a: str, b: str) -> None:
    assert refusal(a, b) is MissReason.GUARD_NUMBERS


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("run 5 km", "run 5 miles"),
        ("5 percent", "5"),
        ("$5", "€5"),
        ("5 MB", "5 Mb"),
        ("drive 50 km/h", "drive 50 km"),
        ("the 2nd law", "the 2 law"),
        ("is H2O safe", "is H2S safe"),
        ("5am", "5pm"),
    ],
)
def test_equal_numbers_with_different_units_are_refused(a: str, b: str) -> None:
    assert refusal(a, b) is MissReason.GUARD_UNITS


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Can I park here?", "Can't I park here?"),
        ("Can I park here?", "Can\u2019t I park here?"),
        ("Should I pay?", "Should I never pay?"),
        ("tea with sugar", "tea without sugar"),
        ("Are there 5 star hotels?", "Are there no 5 star hotels?"),
        ("Enable two-factor login", "Disable two-factor login"),
        ("encrypting a file", "decrypt the file"),
        ("Is gambling legal?", "Is gambling illegal?"),
        ("importing data", "export data"),
        ("unsubscribe me", "How do I subscribe?"),
        ("a smoking room", "a non-smoking room"),
        ("careful people", "careless people"),
        ("Turn wifi on", "turn off wifi"),
        ("I dont smoke", "I smoke"),
        ("possible side effects", "impossible side effects"),
    ],
)
def test_opposite_polarity_is_refused(a: str, b: str) -> None:
    assert refusal(a, b) is MissReason.GUARD_NEGATION


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("How do I reset a password?", "How can I reset the password?"),
        ("Which one is faster?", "Which is faster?"),
        ("Why do dogs bark?", "Why does a dog bark?"),
        ("How many metres in a mile per second", "metres in a mile each second"),
    ],
)
def test_a_paraphrase_passes(a: str, b: str) -> None:
    assert refusal(a, b) is None


@given(TEXTS, TEXTS)
def test_the_guard_is_symmetric(a: str, b: str) -> None:
    assert refusal(a, b) == refusal(b, a)


@given(TEXTS)
def test_a_text_agrees_with_itself_with_more_white_space_around(text: str) -> None:
    assert refusal(text, text) is None
    assert refusal(text, f" {text} ") is None


@given(st.integers(min_value=0, max_value=999_999))
def test_a_number_reads_the_same_spelled_out_grouped_and_plain(n: int) -> None:
    expected = [Quantity(str(n), "")]
    assert quantities(f"about {n} things") == expected
    assert quantities(f"about {n:,} things") == expected
    assert quantities(f"about {spelled(n)} things") == expected


def spelled(n: int) -> str:
    ones, tens = ONES.split(), TENS.split()
    if n < 20:
        return ones[n]
    if n < 100:
        return tens[n // 10 - 2] + (f"-{ones[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{ones[n // 100]} hundred" + (f" and {spelled(n % 100)}" if n % 100 else "")
    rest = n % 1000
    joint = " and " if 0 < rest < 100 else " "
    return f"{spelled(n // 1000)} thousand" + (joint + spelled(rest) if rest else "")


def test_numbers_are_read_in_order_with_sign_and_unit() -> None:
    assert quantities("from -5 °C to minus two, then $3 million in 7.50 hrs") == [
        Quantity("-5", "celsius"),
        Quantity("-2", ""),
        Quantity("3000000", "$"),
        Quantity("7.50", "h"),
    ]


@pytest.mark.timeout(20)  # quadratic reading takes minutes here
@pytest.mark.parametrize("text", ["1,23," * 8_000, "9" * 40_000, "one and " * 8_000, "un" * 20_000])
def test_a_hostile_text_is_read_in_linear_time(text: str) -> None:
    assert refusal(text, text + " zebra") is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("How do I convert Celsius to Fahrenheit?", "How do I convert Fahrenheit to Celsius?"),
        ("Is Anna taller than Ben?", "is Ben taller than Anna"),
    ],
)
def test_the_same_words_in_another_order_exchange_roles(a: str, b: str) -> None:
    assert refusal(a, b) is MissReason.GUARD_ORDER
    assert refusal(b, a) is MissReason.GUARD_ORDER


def test_case_and_punctuation_are_no_other_order() -> None:
    assert refusal("Who wrote Faust?", "who wrote faust") is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (
            "Tell the customer that the refund was approved.",
            "Tell the customer that the refund was rejected.",
        ),
        ("How do I clean a white cotton shirt?", "How do I clean a black cotton shirt?"),
        ("What is the capital of Niger?", "What is the capital of Nigeria?"),
        ("What happened before the war?", "What happened after the war?"),
    ],
)
def test_a_word_in_place_of_another_may_change_the_answer(a: str, b: str) -> None:
    assert refusal(a, b) is MissReason.GUARD_WORDS
    assert refusal(b, a) is MissReason.GUARD_WORDS


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("What is the capital of Japan?", "What's the capital of Japan?"),
        ("Which organ pumps blood through the body?", "What organ pumps blood around the body?"),
        ("How do I reset my password?", "How can I reset my password, please?"),
        ("What is the capital of Japan?", "What is the capital city of Japan?"),
    ],
)
def test_words_of_grammar_and_additions_pass(a: str, b: str) -> None:
    assert refusal(a, b) is None
    assert refusal(b, a) is None


def test_a_unit_that_is_also_a_preposition_is_no_unit_between_words() -> None:
    assert refusal("How do I log in here?", "How do I log out here?") is not None
    assert refusal("What is in the box?", "What is under the box?") is MissReason.GUARD_WORDS
