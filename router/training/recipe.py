"""Define the settings of a user's training run."""

from __future__ import annotations

import math
from dataclasses import dataclass

# The published rates suit an encoder that trains along. Heads alone start far from any good
# place and have nothing to forget.
HEAD_LR, HEADS_ONLY_LR = 2e-5, 5e-4
REGRESSION_LR, HEADS_ONLY_REGRESSION_LR = 1e-5, 2.5e-4
ENCODER_LR, LORA_LR = 1e-5, 2e-4
MANY_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a run depends on besides rows and base.

    Attributes:
        epochs: Upper limit of passes over the rows.
        batch_rows: Rows a step.
        head_lr: Learning rate of the route heads; None = 2e-5, or 5e-4 with a frozen encoder.
        regression_lr: The same for temperature and gain; None = 1e-5, or 2.5e-4.
        encoder_lr: The same for what trains of the encoder; None = 1e-5, or 2e-4 for LoRA.
        unfreeze_last: How many of the encoder's last layers train.
        lora_rank: Rank of LoRA updates of all the encoder's layers (Hu et al.,
            arXiv:2106.09685), merged afterwards; 0 = none.
        warmup_ratio: Share of the steps over which rates rise from zero, in [0, 1); they fall
            linearly to zero over the rest.
        weight_decay: Decoupled, on matrices only.
        clip_norm: Largest norm of a step's gradient.
        patience: Epochs without a lower dev loss before stopping.
        max_tokens: Longest row; longer ones are read head and tail.
        seed: Of initialisation, order and dropout.

    Raises:
        ValueError: Naming the setting.
    """

    epochs: int = 5
    batch_rows: int = 16
    head_lr: float | None = None
    regression_lr: float | None = None
    encoder_lr: float | None = None
    unfreeze_last: int = 0
    lora_rank: int = 0
    warmup_ratio: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    patience: int = 3
    max_tokens: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("head_lr", "regression_lr", "encoder_lr"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value <= 1.0:
                msg = f"{name}: must be in (0, 1], got {value}"
                raise ValueError(msg)
        for name, low in (
            ("epochs", 1),
            ("batch_rows", 1),
            ("patience", 1),
            ("max_tokens", 16),
            ("unfreeze_last", 0),
            ("lora_rank", 0),
        ):
            if getattr(self, name) < low:
                msg = f"{name}: must be at least {low}, got {getattr(self, name)}"
                raise ValueError(msg)
        if not 0.0 <= self.warmup_ratio < 1.0:
            msg = f"warmup_ratio: must be in [0, 1), got {self.warmup_ratio}"
            raise ValueError(msg)
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0.0):
            msg = f"weight_decay: must be finite and >= 0, got {self.weight_decay}"
            raise ValueError(msg)
        if not (math.isfinite(self.clip_norm) and self.clip_norm > 0.0):
            msg = f"clip_norm: must be finite and > 0, got {self.clip_norm}"
            raise ValueError(msg)
        if self.unfreeze_last and self.lora_rank:
            msg = "unfreeze_last: not together with lora_rank, which trains all layers"
            raise ValueError(msg)

    @property
    def encoder_trains(self) -> bool:
        """Whether anything of the encoder trains."""
        return bool(self.unfreeze_last or self.lora_rank)

    @property
    def rates(self) -> dict[str, float]:
        """Peak learning rate of ``route``, ``regression`` and, where it trains, ``encoder``."""
        route, regression = (
            (HEAD_LR, REGRESSION_LR)
            if self.encoder_trains
            else (HEADS_ONLY_LR, HEADS_ONLY_REGRESSION_LR)
        )
        rates = {"route": self.head_lr or route, "regression": self.regression_lr or regression}
        if self.encoder_trains:
            rates["encoder"] = self.encoder_lr or (LORA_LR if self.lora_rank else ENCODER_LR)
        return rates
