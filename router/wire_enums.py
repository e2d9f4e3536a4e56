"""Which member of a domain enum is which value on the wire.

The wire prefixes the bare words (``Tier.FAST`` is ``TIER_FAST``), so the tables are derived
from the names; importing this module fails when the two sides disagree.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Protocol, TypeVar

from router.domain import AnsweredBy, CacheMode, Reason, Role, StepOutcome, Tier
from router.v1 import router_pb2 as pb

MemberT = TypeVar("MemberT", bound=enum.Enum)
ValueT_co = TypeVar("ValueT_co", bound=int, covariant=True)


class WireEnum(Protocol[ValueT_co]):
    """What a generated enum type offers."""

    def items(self) -> Iterable[tuple[str, ValueT_co]]:
        """Return names with their numbers."""
        ...


def enum_table(
    members: type[MemberT], wire: WireEnum[ValueT_co], prefix: str
) -> dict[MemberT, ValueT_co]:
    """Return the wire value of every member, matched by name.

    Raises:
        TypeError: If either side has a name that the other lacks, ``UNSPECIFIED`` aside.
    """
    by_name = {
        name.removeprefix(f"{prefix}_"): value
        for name, value in wire.items()
        if name != f"{prefix}_UNSPECIFIED"
    }
    differing = by_name.keys() ^ members.__members__.keys()
    if differing:
        msg = f"{members.__name__} and {prefix}_* differ in {', '.join(sorted(differing))}"
        raise TypeError(msg)
    return {member: by_name[member.name] for member in members}


TIERS = enum_table(Tier, pb.Tier, "TIER")
REASONS = enum_table(Reason, pb.Reason, "REASON")
ANSWERED_BY = enum_table(AnsweredBy, pb.AnsweredBy, "ANSWERED_BY")
STEP_OUTCOMES = enum_table(StepOutcome, pb.StepOutcome, "STEP_OUTCOME")
ROLES = {value: role for role, value in enum_table(Role, pb.Role, "ROLE").items()}
CACHE_MODES = {
    value: mode for mode, value in enum_table(CacheMode, pb.CacheMode, "CACHE_MODE").items()
}

# The domain keeps the words of chat-completion servers: "tool_calls" is FINISH_REASON_TOOL_CALLS.
FINISH_REASONS = {
    name.removeprefix("FINISH_REASON_").lower(): value for name, value in pb.FinishReason.items()
}
