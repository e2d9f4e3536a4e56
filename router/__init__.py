"""Two-tier System-1/System-2 routing: decide where a request goes, or answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from router.laya_router import LayaRouter, Routed

__all__ = ["LayaRouter", "Routed"]


def __getattr__(name: str) -> Any:
    """Load the in-process API on first use, so that ``import router`` stays light."""
    if name in __all__:
        from router import laya_router

        return getattr(laya_router, name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
