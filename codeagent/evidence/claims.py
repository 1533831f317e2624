"""What limited an answer, and what it claims without a record."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from codeagent.evidence.citations import Citation
from codeagent.evidence.runs import Run, passing

LimitKind = Literal["not_found", "denied", "timeout", "cut_output", "cut_listing", "cut_file"]


@dataclass(frozen=True, slots=True)
class Limit:
    """Something that the model did not get to see: the call, and the path or command that it was about."""

    kind: LimitKind
    call_id: str
    subject: str


_RUNNER = (
    r"`?(?:pytest|unittest|tox|jest|vitest|mocha|ctest|(?:go|cargo|npm|make|mvn|dotnet|gradle) test)\b[^.\n`]{0,30}`?"
)
_SUBJECT = (
    r"(?:(?:(?:all|the|every|each|both|this|that) |\d{1,9}(?:/\d{1,9})? |[a-z-]{1,30} ){0,8}?"
    r"(?:tests?|checks?|specs?|test suites?|suite|build|CI|test_\w+)\b|everything|" + _RUNNER + ")"
)
_NO_FAILURE = (
    r"\b(?:no|0|zero|none|nothing|without|not a single)\b(?: (?:more|longer|of the|other|the|any|a single))?"
    r"(?: tests?)?(?: \w+)? ?fail\w*|\bno longer fail\w*"
)
_ONCE_FAILING = r"\bfail(?:ing|ed) (?:tests?|checks?|specs?)\b(?=[^.\n]*\bnow\b)"
_SEEN = (
    r"\bwhen (?:I |we )?(?:re-?)?(?:run|ran|running|executed|tested)\b"
    r"|\([^()\n]*\b(?:did|was|were)(?: not|n't)\b[^()\n]*\)"
)
_CHANGE = r"(?:the |this |my |that )?(?:fix|change|patch|solution|repair|correction)"
_CLAIM = re.compile(
    rf"\b{_SUBJECT}[^.\n。;；]{{0,30}}?\b"
    r"(?:pass(?:es|ed|ing)?(?! (?:to|by|on|the|an?|it|through|along|into|as|from|around)\b)|succeed(?:s|ed)?"
    r"|(?:is|are) (?:all |now )*green|works? again|reports? success|(?:comes?|came) back (?:clean|green)"
    r"|exit(?:s|ed) (?:with )?(?:code )?0)\b"
    r"|\ball green\b|\b\d{1,9} (?:tests? )?passed\b|\bverified(?: by| that| with)?\b[^.\n]{0,40}\btests?\b"
    rf"|\bran {_RUNNER}[^.\n]{{0,20}}\bpass\w*"
    rf"|\b{_CHANGE} (?:is|was|has been|have been) (?:now |fully |successfully )*(?:verified|tested|confirmed)\b"
    rf"|\b(?:have |has )?(?:verified|confirmed|tested) (?:that )?{_CHANGE}\b"
    rf"|{_NO_FAILURE}"
    r"|\btests?(?: results?)?: (?:all )?(?:green|pass\w*|ok|success\w*)\b"
    r"|^(?:fix|change|patch|verification): (?:verified|passed)\b"
    r"|(?:测试|检查|用例)(?:都|均|已|已经|全部|现在){0,4}(?:通过|成功)"
    r"|テスト[^。\n]{0,10}(?:通り|通っ|パス|成功)|\bтест\w*\b[^.\n]{0,20}\b(?:проход\w+|пройден\w*|прошл\w+)"
    r"|\b(?:alle|die)? ?Tests?\b[^.\n]{0,20}\b(?:bestehen|bestanden|laufen durch|sind grün)\b"
    r"|\b(?:tous )?les tests\b[^.\n]{0,20}\b(?:passent|réussissent|sont verts)\b"
    r"|\b(?:todas )?las pruebas\b[^.\n]{0,20}\bpasan\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:no|not|never|don't|doesn't|didn't|cannot|can't|fail\w*|if|whether|should|would|could|may|might|until|once|"
    r"when|before|unless|make sure|so that|nicht|pas|aucun|expected to|need to|must|to see)\b"
    r"|没有|未|不|是否|如果|应该|直到|失败",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]?")


def unsupported(answer: str, runs: Sequence[Run]) -> list[str]:
    """Sentences which claim that tests pass, when no command that runs tests has ended with exit code 0.

    A command whose exit code is that of a filter (`pytest | tail`) proves nothing.
    """
    if any(passing(run) for run in runs):
        return []
    found = []
    for match in _SENTENCE.finditer(_prose(answer)):
        sentence = match.group().strip(" *-#>\t")
        claim = _CLAIM.search(sentence)
        # "0 failed" and "the failing test now passes" deny a failure, and "when I ran them" takes nothing back.
        rest = re.sub(f"{_NO_FAILURE}|{_ONCE_FAILING}|{_SEEN}", "", sentence, flags=re.IGNORECASE)
        if claim and not _DENIED.search(rest):
            found.append(sentence)
    return list(dict.fromkeys(found))


def _prose(answer: str) -> str:
    """The answer without its blocks of code; a fence that nothing closes is none."""
    kept: list[str] = []
    block: list[str] = []
    fence = ""
    for line in answer.split("\n"):
        if fence:
            block.append(line)
            if line.rstrip() == fence:
                fence, block = "", []
        elif line.startswith(("```", "~~~")):
            fence, block = line[:3], [line]
        else:
            kept.append(line)
    return "\n".join([*kept, *block])


def subject(arguments: str) -> str:
    """What a call is about: its path or its command."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(given, dict):
        return ""
    return str(given.get("command") or given.get("path") or "")


def relevant(limits: Sequence[Limit], citations: Sequence[Citation]) -> list[Limit]:
    """The limits to show with an answer: outputs that were cut only when the answer cites what they showed."""
    cited = {call for citation in citations for call in citation.call_ids}
    return [limit for limit in limits if limit.kind not in ("cut_output", "cut_file") or limit.call_id in cited]
