"""Score prompts with litellm's rule-based complexity router.

litellm fetches a price table from the network on import unless told to use its own copy.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from router.evaluation.bootstrap import Floats
from router.evaluation.progress import progress

SIMPLE = "SIMPLE"


def complexity(prompts: Sequence[str]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the heuristic's score of each prompt, and whether it calls it simple.

    Returns:
        Two arrays of shape ``(rows,)``; a higher score is more complex.

    Raises:
        ImportError: If litellm is not installed.
    """
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    with warnings.catch_warnings():
        # Raised by litellm's own imports; none concerns us.
        warnings.simplefilter("ignore")
        from litellm.router_strategy.complexity_router.complexity_router import ComplexityRouter

    tiers = {name: name for name in (SIMPLE, "MEDIUM", "COMPLEX", "REASONING")}
    router = ComplexityRouter(
        model_name="auto", ctx=None, complexity_router_config={"tiers": tiers}
    )
    judged = [router.classify(prompt) for prompt in progress(prompts, "litellm heuristic")]
    scores = np.asarray([score for _, score, _ in judged], dtype=np.float64)
    simple = np.asarray([tier.value == SIMPLE for tier, _, _ in judged], dtype=np.bool_)
    return scores, simple
