"""Everything the fast tier raises on purpose.

* ``FastTierError``: root; catch it to escalate to the slow tier.

  * ``ModelUnavailable``: nothing can be answered: the file or its library is missing, or closed.
  * ``InvalidRequest`` (also a ``ValueError``): the caller sent what no model can answer.

    * ``ContextOverflow``: the messages do not fit the model's context.

  * ``DeadlineExceeded`` (also a ``TimeoutError``): the time ran out; the generation is stopped.
  * ``GenerationFailed``: the model broke off; the same request may work again.

No message carries what a user typed.
"""

from __future__ import annotations


class FastTierError(Exception):
    """Root of the errors of this package."""


class ModelUnavailable(FastTierError):  # noqa: N818  # the condition is the name; see the tree
    """The model cannot be used; the message says what to install or configure."""


class InvalidRequest(FastTierError, ValueError):  # noqa: N818  # as above
    """A field of the request is out of range; the message names it with its limit."""


class ContextOverflow(InvalidRequest):
    """The rendered messages are longer than the context of the model.

    Attributes:
        prompt_tokens: Length of the rendered messages, or ``None`` where the library hides it.
        context_tokens: What one request may use, prompt plus answer.
    """

    def __init__(self, *, prompt_tokens: int | None, context_tokens: int) -> None:
        size = "more" if prompt_tokens is None else f"{prompt_tokens}"
        super().__init__(f"messages: {size} tokens, the model's context holds {context_tokens}")
        self.prompt_tokens = prompt_tokens
        self.context_tokens = context_tokens


class DeadlineExceeded(FastTierError, TimeoutError):  # noqa: N818  # as above
    """The deadline passed before the answer was complete; nothing is generated after it."""


class GenerationFailed(FastTierError):  # noqa: N818  # as above
    """The model or its library failed during one generation."""
