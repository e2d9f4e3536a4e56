"""Say which requests may share an answer.

Everything beside the words of the conversation or state that can change an answer is part of
the namespace: system prompts, schema, questions, tools, sampling settings, model revisions.
The exact key then covers the words too.

Only a lone prompt may be answered from a similar one. The similarity threshold was measured
on single texts; where an earlier conversation, a state or a list of tools makes up most of
what the encoder reads, two requests that differ in the decisive word are closer than most
paraphrases. Those requests have the exact tier alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cache.entry import Namespace, canonical_text, request_key
from router.domain import Message, Question, Request, Role, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRevisions:
    """The models behind an answer.

    Attributes:
        encoder: Revision of the encoder whose embeddings are compared.
        text_models: Name, model and revision of every text model, fast tier first.
        system_prompts: What each of them is told where the caller gives no system message.
    """

    encoder: str
    text_models: tuple[str, ...] = ()
    system_prompts: tuple[str, ...] = ()


def namespace_of(request: Request, revisions: ModelRevisions) -> Namespace:
    """Return the part of the cache whose answers could fit ``request``."""
    system = [m.content for m in request.messages if m.role is Role.SYSTEM]
    schema = request.response_schema
    return Namespace(
        tenant=request.tenant,
        encoder_revision=revisions.encoder,
        system_prompt=_digest([system, revisions.system_prompts]),
        question_schema=_digest(
            {
                "questions": {name: _question(q) for name, q in request.questions.items()},
                "response_schema": schema and schema.document,
            }
        ),
        # An answer of 2000 tokens does not fit a caller who asked for 50, one of the fast tier
        # does not fit a higher min_quality.
        answer_settings=_digest(
            {
                "temperature": request.temperature,
                "max_output_tokens": request.max_output_tokens,
                "min_quality": request.budget.min_quality,
            }
        ),
        tool_set=_digest([_tool(tool) for tool in request.tools or ()]),
        model_revisions=_digest(revisions.text_models),
        variant="",
    )


def answer_key(namespace: Namespace, request: Request) -> str:
    """Return the key under which the answer to exactly this request is found."""
    return request_key(namespace, _words(request))


def decision_request_key(namespace: Namespace, request: Request, *, rpc: str) -> str:
    """Return the key of everything a decision depends on.

    Unlike an answer, a decision also depends on the cost limit, on whether the caller knows
    its tools, and on the call: `Route` and `Decide` leave out different routes.
    """
    return request_key(
        namespace,
        {
            **_words(request),
            "rpc": rpc,
            "tools_known": request.tools is not None,
            "max_cost_usd": request.budget.max_cost_usd,
        },
    )


def asked_text(request: Request) -> str:
    """Return what is asked, as the guard and the check for volatile prompts read it."""
    if request.state is not None:
        instructions = [question.instructions for question in request.questions.values()]
        return "\n".join([request.state.text, *instructions])
    return next(m.content for m in reversed(request.messages) if m.role is Role.USER)


def is_lone_prompt(request: Request) -> bool:
    """Return whether the request is one user turn, system turns aside, without tools."""
    turns = [message for message in request.messages if message.role is not Role.SYSTEM]
    return request.state is None and not request.tools and len(turns) == 1


def _words(request: Request) -> Mapping[str, Any]:
    state = request.state
    return {
        "messages": [_message(message) for message in request.messages],
        "state": None if state is None else [state.is_json, state.text],
    }


def _message(message: Message) -> list[str]:
    content = message.content
    return [message.role.value, canonical_text(content) if message.role is Role.USER else content]


def _question(question: Question) -> list[Any]:
    return [question.type.value, question.instructions, question.options]


def _tool(tool: Tool) -> list[Any]:
    return [tool.name, tool.description, tool.parameters]


def _digest(value: object) -> str:
    encoded = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(encoded.encode("ascii")).hexdigest()
