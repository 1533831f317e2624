"""What the record says of the text that ends a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codeagent.evidence.citations import Citation
    from codeagent.evidence.claims import Limit


@dataclass(frozen=True, slots=True)
class Findings:
    """What the text rests on and does not rest on (the fields of `events.TurnEnded`); nothing where no tool ran."""

    citations: Sequence[Citation] = ()
    limits: Sequence[Limit] = ()
    unsupported: Sequence[str] = ()
    misquoted: Sequence[str] = ()
    shown: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    unchecked: str = ""
