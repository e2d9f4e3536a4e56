"""Tool names are spelt for the wire without ever being confused."""

from slow_tier.tool_names import names_on_the_wire


def test_a_name_without_dots_keeps_its_spelling_even_beside_one_that_wants_it():
    names = ["math.sqrt", "math_sqrt", "math_sqrt_2", "mat.h_sqrt"]
    assert names_on_the_wire(names) == {
        "math.sqrt": "math_sqrt_3",
        "math_sqrt": "math_sqrt",
        "math_sqrt_2": "math_sqrt_2",
        "mat.h_sqrt": "mat_h_sqrt",
    }


def test_every_spelling_is_short_enough_and_unique():
    names = [f"{'.' * dots}{'_' * (64 - dots)}" for dots in range(65)]
    spelt = names_on_the_wire(names)
    assert list(spelt) == names
    assert len(set(spelt.values())) == 65
    assert all(len(name) == 64 and "." not in name for name in spelt.values())
