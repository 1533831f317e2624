"""The answer in words: every place with its citation, and what these rules cannot say."""

from __future__ import annotations

from dataclasses import dataclass

from codeagent.providers.offline.analysis import Exit
from codeagent.providers.offline.investigation import Finding, Report, Visit
from codeagent.providers.offline.question import Kind, Question
from codeagent.providers.offline.source import Guard
from codeagent.providers.offline.transcript import Hit, Transcript

MAX_PLACES = 16
MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class Words:
    """The sentences of one language."""

    no_model: str
    nothing_head: str
    raise_head: str
    unconnected: str
    returns: str
    maybe: str
    carries: str
    falls_off: str
    raises: str
    decides: str
    answers: str
    when: str
    otherwise: str
    passed: str
    reached: str
    guessed: str
    changed: str
    set_at: str
    undecided: str
    more: str
    not_followed: str
    defined: str
    used: str
    no_uses: str
    not_found: str
    no_place: str
    looked_at: str
    mentions: str
    kinds: str
    failed: str
    cut: str
    stopped: str
    need: str


ENGLISH = Words(
    no_model="No language model was used: this was found by fixed rules that search and read the code.",
    nothing_head="{target}: places that can give {values} back, in the order in which they are reached:",
    raise_head="{target}: places that raise {values}, in the order in which they are reached:",
    unconnected="No way from {target} to a place that raises {values} was found; it is raised here:",
    returns="{place} in `{function}`: `{code}`",
    maybe="{place} in `{function}`: `{code}` gives nothing for a key that is not there",
    carries="{place} in `{function}`: `{code}`, which was given its empty value at {origin}",
    falls_off="{place} is the last statement of `{function}`, whose end can be reached without a `return`",
    raises="{place} in `{function}`: `{code}`",
    decides="`{function}` decides that condition:",
    answers="{place}: `{code}`",
    when="when `{condition}` ({place})",
    otherwise="in the other case of `{condition}` ({place})",
    passed="when none of these ended it earlier: {conditions}",
    reached="reached through {steps}",
    guessed="the receiver's type is not known; chosen by the name",
    changed="statements of the same type that use `{subject}`: {places}",
    set_at="`{code}` ({place})",
    undecided="Which of these places applies cannot be told by rules alone; the conditions above say what to check.",
    more="{count} more places are left out.",
    not_followed="Not followed, because the name is defined in many places: {calls}.",
    defined="`{name}` is defined here:",
    used="It is mentioned here:",
    no_uses="No other mention of it was found.",
    not_found="Nothing found: {target} is not defined in what could be searched.",
    no_place="Nothing found: the code of {target} was read, and no place that gives {values} back was recognised.",
    looked_at="Looked at: {places}.",
    mentions="The name is mentioned here:",
    kinds='Without a model only questions of the kind "why does X return null", "why does X raise Y" and '
    '"where is X" can be answered; here is where the names are.',
    failed="Some calls failed and their part is missing: {calls}.",
    cut="A search had more results than could be shown; some places may be missing.",
    stopped="The search ended at its limit of {rounds} rounds; some calls were not followed.",
    need="NEEDS INPUT: name a class, a function or a file that the question is about.",
)
CHINESE = Words(
    no_model="没有使用语言模型：以下内容由固定规则搜索和阅读代码得出。",
    nothing_head="{target}：可能返回 {values} 的位置，按到达顺序排列：",
    raise_head="{target}：抛出 {values} 的位置，按到达顺序排列：",
    unconnected="没有找到从 {target} 到抛出 {values} 的路径；它在以下位置抛出：",
    returns="{place}，`{function}` 中：`{code}`",
    maybe="{place}，`{function}` 中：`{code}`，键不存在时没有值",
    carries="{place}，`{function}` 中：`{code}`，其空值在 {origin} 处赋予",
    falls_off="{place} 是 `{function}` 的最后一条语句，函数可能没有 `return` 就结束",
    raises="{place}，`{function}` 中：`{code}`",
    decides="该条件由 `{function}` 决定：",
    answers="{place}：`{code}`",
    when="条件：`{condition}`（{place}）",
    otherwise="`{condition}` 不成立时（{place}）",
    passed="前面这些条件都没有提前结束时：{conditions}",
    reached="经由 {steps}",
    guessed="接收者的类型未知，按名称选择",
    changed="同一类型中使用 `{subject}` 的语句：{places}",
    set_at="`{code}`（{place}）",
    undecided="仅凭规则无法判断实际是哪一处；请检查上面的条件。",
    more="另有 {count} 处未列出。",
    not_followed="以下调用因同名定义太多而没有继续跟踪：{calls}。",
    defined="`{name}` 定义在：",
    used="提到它的位置：",
    no_uses="没有找到其他提到它的位置。",
    not_found="没有找到：在可以搜索的内容里没有 {target} 的定义。",
    no_place="没有找到：已阅读 {target} 的代码，没有发现会返回 {values} 的位置。",
    looked_at="已查看：{places}。",
    mentions="提到该名称的位置：",
    kinds="没有模型时只能回答“X 为什么返回 null”“X 为什么抛出 Y”“X 在哪里”这类问题；以下是这些名称所在的位置。",
    failed="部分调用失败，其内容缺失：{calls}。",
    cut="某次搜索的结果太多，没有全部显示；可能有遗漏。",
    stopped="搜索在 {rounds} 轮的上限处结束；部分调用没有跟踪。",
    need="NEEDS INPUT: 请指出问题涉及的类、函数或文件的名称。",
)


def compose(question: Question, report: Report, transcript: Transcript, out_of_budget: bool) -> str:
    """The whole answer."""
    words = CHINESE if question.chinese else ENGLISH
    target = _target(question)
    lines: list[str] = []
    if not target:
        return "\n\n".join((words.no_model, words.kinds, words.need))
    if question.kind in (Kind.WHERE, Kind.OTHER):
        lines += _where(words, question, report)
    elif report.findings:
        lines += _places(words, question, report)
    else:
        lines += _nothing(words, question, report)
    lines += [""]
    if report.not_followed and report.findings:
        calls = ", ".join(f"`{name}` ({place})" for name, place in list(report.not_followed.items())[:6])
        lines.append(words.not_followed.format(calls=calls))
    if transcript.failures:
        lines.append(words.failed.format(calls=", ".join(list(transcript.failures)[:4])))
    if transcript.cut:
        lines.append(words.cut)
    if out_of_budget:
        lines.append(words.stopped.format(rounds=transcript.rounds))
    lines.append(words.no_model)
    return "\n".join(lines).strip() + "\n"


def _target(question: Question) -> str:
    names = [f"`{target.title}`" for target in question.targets] or [f"`{word}`" for word in question.words]
    names = names or [f"`{name}`" for name in (*question.exceptions, *question.files)]
    return ", ".join(names)


def _values(question: Question, report: Report) -> str:
    if question.kind is Kind.RAISE:
        return ", ".join(f"`{name}`" for name in question.exceptions) or "an exception"
    seen = " ".join(place.shown for finding in report.findings for place in finding.places)
    written = [value for value in question.values if value in seen] or list(question.values[:1])
    return ", ".join(f"`{value}`" for value in written[:3])


def _places(words: Words, question: Question, report: Report) -> list[str]:
    raising = question.kind is Kind.RAISE
    head = words.unconnected if report.unconnected else words.raise_head if raising else words.nothing_head
    lines = [head.format(target=_target(question), values=_values(question, report)), ""]
    findings = [finding for finding in report.findings if not finding.visit.decides]
    deciding = [finding for finding in report.findings if finding.visit.decides]
    count = shown = 0
    for finding in findings:
        for place in finding.places:
            count += 1
            if shown < MAX_PLACES:
                shown += 1
                lines += [f"{shown}. {_place(words, finding, place, raising)}", *_around(words, finding, place)]
                lines += _decided(words, finding, place, deciding)
    lines.append("")
    if count > shown:
        lines.append(words.more.format(count=count - shown))
    if count > 1:
        lines.append(words.undecided)
    return lines


def _place(words: Words, finding: Finding, place: Exit, raising: bool) -> str:
    function = finding.visit.function
    at = _span(function.path, place.line, place.last_line)
    kind = (
        words.raises if raising
        else words.falls_off if place.falls_off
        else words.carries if place.origin
        else words.maybe if place.maybe
        else words.returns
    )  # fmt: skip
    return kind.format(
        place=at, function=function.title, code=_short(place.shown), origin=f"{function.path}:{place.origin}"
    )


def _around(words: Words, finding: Finding, place: Exit) -> list[str]:
    path = finding.visit.function.path
    lines = [_condition(words, path, guard) for guard in place.conditions]
    if place.passed:
        conditions = ", ".join(
            f"{'else: ' * (guard.kind == 'else')}`{_short(guard.text)}` ({path}:{guard.line})"
            for guard in place.passed[:5]
        )
        lines.append(words.passed.format(conditions=conditions))
    lines += [words.set_at.format(code=_short(s.shown), place=f"{path}:{s.line}") for s in place.sets[:3]]
    if finding.visit.before is not None:
        lines.append(words.reached.format(steps=_steps(finding.visit)))
    if finding.visit.guessed:
        lines.append(words.guessed)
    guards = " ".join(guard.text for guard in (*place.conditions, *place.passed))
    for subject, changed in finding.changed:
        if f"{subject}." in guards or f"{subject}->" in guards:
            places = ", ".join(f"`{_short(s.shown)}` ({path}:{s.line})" for s in changed[:6])
            lines.append(words.changed.format(subject=subject, places=places))
    return [f"   - {line}" for line in lines]


def _decided(words: Words, finding: Finding, place: Exit, deciding: list[Finding]) -> list[str]:
    """What the functions say that the conditions of a place ask; each is told once."""
    lines = []
    asked = [guard.line for guard in (*place.conditions, *place.passed)]
    for other in list(deciding):
        if other.visit.before is finding.visit and other.visit.line in asked:
            deciding.remove(other)
            lines.append(f"   - {words.decides.format(function=other.visit.function.title)}")
            for answer in other.places:
                at = _span(other.visit.function.path, answer.line, answer.last_line)
                conditions = [_condition(words, other.visit.function.path, guard) for guard in answer.conditions]
                text = words.answers.format(place=at, code=_short(answer.shown))
                lines.append(f"     - {', '.join([text, *conditions])}")
    return lines


def _condition(words: Words, path: str, guard: Guard) -> str:
    kind = words.otherwise if guard.kind == "else" else words.when
    return kind.format(condition=_short(guard.text), place=f"{path}:{guard.line}")


def _steps(visit: Visit) -> str:
    steps: list[str] = []
    step: Visit | None = visit
    while step is not None and step.before is not None:
        steps.append(f"`{step.before.function.title}` ({step.before.function.path}:{step.line})")
        step = step.before
    return " → ".join(reversed(steps))


def _where(words: Words, question: Question, report: Report) -> list[str]:
    lines = [words.kinds, ""] if question.kind is Kind.OTHER else []
    if not report.definitions:
        lines += [words.not_found.format(target=_target(question)), ""]
    else:
        lines += [words.defined.format(name=_target(question).strip("`")), *_hits(report.definitions), ""]
    if report.uses:
        lines += [words.used if report.definitions else words.mentions, *_hits(report.uses)]
        if len(report.uses) > MAX_LISTED:
            lines.append(words.more.format(count=len(report.uses) - MAX_LISTED))
    elif report.definitions:
        lines.append(words.no_uses)
    return lines


def _nothing(words: Words, question: Question, report: Report) -> list[str]:
    if not report.roots:
        lines = [words.not_found.format(target=_target(question))]
    else:
        lines = [words.no_place.format(target=_target(question), values=_values(question, report))]
        places = ", ".join(
            f"`{visit.function.title}` ({_span(visit.function.path, visit.function.line, visit.function.last_line)})"
            for visit in report.roots[:MAX_LISTED]
        )
        lines.append(words.looked_at.format(places=places))
    if report.uses and not report.roots:
        lines += ["", words.mentions, *_hits(report.uses)]
    return lines


def _hits(hits: list[Hit]) -> list[str]:
    return [f"- {hit.path}:{hit.line}: `{_short(hit.text.strip())}`" for hit in hits[:MAX_LISTED]]


def _span(path: str, first: int, last: int) -> str:
    return f"{path}:{first}" if last <= first else f"{path}:{first}-{last}"


def _short(text: str) -> str:
    text = " ".join(text.split()).replace("`", "'")
    return text if len(text) <= 120 else f"{text[:119]}…"
