"""What a distillation step is measured by, at which rate it goes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.train, pytest.mark.timeout(300)]


def teacher() -> Any:
    """Return three texts between [CLS] = 1 and [SEP] = 2, whose states are their token ids."""
    from router.training.teacher import TEACHER_DIM

    ids = [np.asarray(row, np.int32) for row in ([1, 5, 2], [1, 6, 7, 2], [1, 8, 2])]

    def tokens(text: int) -> Any:
        return np.repeat(ids[text][:, None], TEACHER_DIM, axis=1).astype(np.float16)

    return SimpleNamespace(ids=ids, tokens=tokens)


def test_a_second_text_loses_its_cls_and_counts_for_its_tokens_alone() -> None:
    from router.training.distillation_loss import targets_of

    targets = targets_of(teacher(), np.asarray([0, 1, 2]), joined=True, device="cpu")
    assert targets.ids.tolist() == [[1, 5, 2, 6, 7, 2]]
    assert targets.mask.tolist() == [[1, 1, 1, 1, 1, 1]]
    assert targets.first.tolist() == [[1, 1, 1, 0, 0, 0]]
    assert targets.states[0, :, 0].tolist() == [1, 5, 2, 6, 7, 2]


def test_padding_has_no_state_and_no_part_in_the_loss() -> None:
    import torch

    from router.training.distill import DistillSettings
    from router.training.distillation_loss import distillation_loss, targets_of

    targets = targets_of(teacher(), np.asarray([0, 1]), joined=False, device="cpu")
    assert targets.mask.tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    torch.manual_seed(0)
    states = torch.randn(*targets.ids.shape, 4) * targets.mask.unsqueeze(-1)
    student = states + 9.0 * (1 - targets.mask).unsqueeze(-1)
    loss = distillation_loss(student, states, targets, DistillSettings())
    assert float(loss) == pytest.approx(0.0, abs=1e-6)
    # Twice as long, the same directions: the tokens' error alone is left, one in all.
    loss = distillation_loss(2.0 * states, states, targets, DistillSettings(token_weight=3.0))
    assert float(loss) == pytest.approx(3.0, abs=1e-5)


@pytest.mark.parametrize(
    ("decay_ratio", "shown", "factor"),
    [
        (0.5, 0, 0.0),
        (0.5, 5, 0.5),
        (0.5, 10, 1.0),
        (0.5, 50, 1.0),
        (0.5, 75, 0.5),
        (0.5, 100, 0.0),
        (0.5, 120, 0.0),
        (0.0, 100, 1.0),
    ],
)
def test_rates_rise_stay_and_fall(decay_ratio: float, shown: int, factor: float) -> None:
    from router.training.distill import DistillSettings, rate_factor

    settings = DistillSettings(presentations=100, warmup_presentations=10, decay_ratio=decay_ratio)
    assert rate_factor(shown, settings) == pytest.approx(factor)
