"""The target table compares what was measured and keeps quiet about what was not."""

from typing import Any

from router.evaluation.targets import TARGETS, target_table


def figure(value: float | None, low: float | None = None) -> dict[str, Any]:
    return {"value": value, "low": low, "high": None, "n": 10}


def row(sections: dict[str, Any], key: str) -> dict[str, Any]:
    (found,) = [each for each in target_table(sections) if each["key"] == key]
    return found


def routing(group: str, **parts: Any) -> dict[str, Any]:
    return {"routing": {"groups": {group: parts}}}


def test_keys_are_unique() -> None:
    keys = [target.key for target in TARGETS]
    assert len(keys) == len(set(keys))


def test_a_bound_itself_is_met() -> None:
    sections = {"temperature": {"ratio": figure(0.6), "spearman": figure(0.59)}}
    assert row(sections, "temperature_error_ratio")["met"] is True
    assert row(sections, "temperature_spearman")["met"] is False


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert all(each["met"] is None for each in target_table({}))
    assert row({"temperature": {"ratio": figure(None)}}, "temperature_error_ratio")["met"] is None
    assert row({"temperature": {"skipped": "why"}}, "temperature_spearman")["met"] is None


def test_a_figure_without_a_target_is_reported_only() -> None:
    metrics = {"auc_weak_fails": {"router": figure(0.55)}}
    found = row(routing("routellm_gsm8k/test", metrics=metrics), "auc_gsm8k_test")
    assert (found["measured"]["value"], found["met"]) == (0.55, None)


def test_baselines_of_the_same_run_stand_beside_the_figure() -> None:
    metrics = {"auc_weak_fails": {"router": figure(0.72), "tfidf": figure(0.67)}}
    found = row(routing("routellm_mmlu/test", metrics=metrics), "auc_mmlu_test")
    assert found["met"] is True
    assert found["to_beat"] == {"tfidf": 0.67}


def test_the_lead_is_over_the_best_baseline_and_its_lower_end_counts() -> None:
    over = {"tfidf": figure(0.04, low=-0.01), "length": figure(0.08, low=0.05)}
    differences = {"apgr": {"over": over, "best_baseline": "tfidf"}}
    found = row(routing("routellm_mmlu/ood", differences=differences), "apgr_mmlu_ood_lead")
    assert found["measured"]["value"] == 0.04
    assert found["met"] is False


def test_a_run_without_baselines_has_no_lead() -> None:
    differences = {"apgr": {"over": {}, "best_baseline": None}}
    found = row(routing("routellm_mmlu/ood", differences=differences), "apgr_mmlu_ood_lead")
    assert found["met"] is None


def test_every_generator_has_a_length_target_of_its_own() -> None:
    groups = {"arena/gpt": {"differences": {"tfidf": figure(0.06)}, "spearman": {}}}
    found = row({"lengths": {"groups": groups}}, "length_lead_arena/gpt")
    assert found["met"] is True


def test_every_undeclared_language_has_a_target_of_its_own() -> None:
    languages = {"zh": {"abstaining": figure(0.99)}, "de": {"abstaining": figure(0.04)}}
    sections = {"abstention": {"undeclared_languages": languages}}
    assert row(sections, "abstains_language_zh")["met"] is True
    assert row(sections, "abstains_language_de")["met"] is False


def test_a_bare_number_is_a_figure_without_an_interval() -> None:
    found = row(
        {"latency": {"ratio_to": {"teacher_int8": {"32_tokens": 0.39}}}}, "latency_32_tokens_int8"
    )
    assert (found["measured"]["low"], found["met"]) == (None, True)
