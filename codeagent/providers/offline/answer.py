"""The answer in words: every place with its citation, and what these rules cannot say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codeagent.providers.offline.analysis import Place
from codeagent.providers.offline.investigation import Report, Visit
from codeagent.providers.offline.question import Kind
from codeagent.providers.offline.source import Function, Guard, Statement, is_python
from codeagent.providers.offline.transcript import Hit, Transcript

MAX_PLACES = 16
MAX_LISTED = 10

_ENGLISH = """
no_model    | No language model was used: this was found by fixed rules that search and read the code.
nothing     | {target}: places that can give {values} back, in the order in which they are reached:
raise       | {target}: places that raise {values}, in the order in which they are reached:
unconnected | No way from {target} to a place that raises {values} was found; it is raised here:
place       | {place} in `{function}`: `{code}`
maybe       | {place} in `{function}`: `{code}`, which gives nothing for a missing key, where it looks one up
falls_off   | {place} is the last statement of `{function}`, whose end can be reached without a `return`
origin      | , which may have its empty value from here: {code}
when        | when {code}
otherwise   | in the other case of {code}
passed      | when none of these ended it earlier: {codes}
related     | what it tests is set or used here: {codes}
decides     | `{function}` decides that condition:
reached     | reached through {steps}
guessed     | the receiver's type is not known; chosen by the name
undecided   | Which of these places applies cannot be told by rules alone; the conditions above say what to check.
not_followed| Not followed, because it is not known which function is meant: {calls}.
unseen      | No place where {values} comes from was recognised.
defined     | {name} is defined here:
undefined   | No definition of {name} was recognised.
used        | It is mentioned here:
no_uses     | No other mention of it was found.
file        | {name} is here: {path}:1
not_found   | Nothing found: {name} is not in what could be searched ({listing}).
no_place    | Nothing found: the code of {target} was read, and no place that gives {values} was seen. It ends so:
more        | {count} more places are left out.
failed      | Some calls failed and their part is missing: {calls}.
cut         | A search had more results than could be shown; some places may be missing.
stopped     | The search ended at its limit after {rounds} rounds; some calls were not followed.
kinds       | Without a model only "why does X return null", "why does X raise Y" and "where is X" can be answered.
need        | NEEDS INPUT: a class, a function or a file of this repository, by name, as in "where is UserService".
"""
_CHINESE = """
no_model    | 没有使用语言模型：以下内容由固定规则搜索和阅读代码得出。
nothing     | {target}：可能返回 {values} 的位置，按到达顺序排列：
raise       | {target}：抛出 {values} 的位置，按到达顺序排列：
unconnected | 没有找到从 {target} 到抛出 {values} 的路径；它在以下位置抛出：
place       | {place}，`{function}` 中：`{code}`
maybe       | {place}，`{function}` 中：`{code}`，若为查找，键不存在时没有值
falls_off   | {place} 是 `{function}` 的最后一条语句，函数可能没有 `return` 就结束
origin      | ，其空值可能来自：{code}
when        | 条件：{code}
otherwise   | {code} 不成立时
passed      | 前面这些条件都没有提前结束时：{codes}
related     | 被检查的内容在这些位置设置或使用：{codes}
decides     | 该条件由 `{function}` 决定：
reached     | 经由 {steps}
guessed     | 接收者的类型未知，按名称选择
undecided   | 仅凭规则无法判断实际是哪一处；请检查上面的条件。
not_followed| 以下调用因不知道指的是哪个函数而没有继续跟踪：{calls}。
unseen      | 没有识别出产生 {values} 的位置。
defined     | {name} 定义在：
undefined   | 没有识别出 {name} 的定义。
used        | 提到它的位置：
no_uses     | 没有找到其他提到它的位置。
file        | {name} 在这里：{path}:1
not_found   | 没有找到：在可以搜索的内容里没有 {name}（{listing}）。
no_place    | 没有找到：已阅读 {target} 的代码，没有发现会产生 {values} 的位置。它这样结束：
more        | 另有 {count} 处未列出。
failed      | 部分调用失败，其内容缺失：{calls}。
cut         | 某次搜索的结果太多，没有全部显示；可能有遗漏。
stopped     | 搜索在 {rounds} 轮后到达上限；部分调用没有跟踪。
kinds       | 没有模型时只能回答“X 为什么返回 null”“X 为什么抛出 Y”“X 在哪里”这类问题。
need        | NEEDS INPUT: 请按仓库中的写法给出类、函数或文件的名称，例如“UserService 在哪里”。
"""


def compose(report: Report, transcript: Transcript) -> str:
    """The whole answer, in Chinese for a question in Chinese, else in English."""
    return _Answer(report, transcript).text()


class _Answer:
    def __init__(self, report: Report, transcript: Transcript) -> None:
        question = report.question
        lines = (_CHINESE if question.chinese else _ENGLISH).strip().split("\n")
        self._phrases = {name.strip(): phrase.strip(" ") for name, _, phrase in (one.partition("|") for one in lines)}
        self._question = question
        self._report = report
        self._transcript = transcript
        titles = [target.title for target in question.targets] or [*question.exceptions, *question.files]
        self._target = ", ".join(f"`{title}`" for title in titles)

    def _say(self, phrase: str, **values: object) -> str:
        return self._phrases[phrase].format(target=self._target, values=self._values(), **values)

    def text(self) -> str:
        report, transcript = self._report, self._transcript
        if not self._target:
            lines = [self._say("no_model"), "", self._say("kinds"), ""]
        elif report.findings:
            lines = self._places()
        elif report.roots:
            lines = [self._say("no_place"), *_ends(report.roots), ""]
        else:
            lines = self._mentions()
        if report.not_followed and report.findings:
            calls = [f"`{name}` ({place})" for name, place in report.not_followed.items()]
            lines.append(self._say("not_followed", calls=", ".join(calls[:6])))
        if transcript.failures:
            lines.append(self._say("failed", calls=", ".join([*transcript.failures][:4])))
        if transcript.cut:
            lines.append(self._say("cut"))
        if transcript.wanted:
            lines.append(self._say("stopped", rounds=transcript.rounds))
        return "\n".join([*lines, self._say("no_model" if self._target else "need")]) + "\n"

    def _values(self) -> str:
        """What is given back, as it is written in the places, else as it is usual in the language."""
        question, report = self._question, self._report
        code = " ".join(place.statement.shown for _, places in report.findings for place in places).split()
        usual = int(any(is_python(function.path) for function in report.roots))
        written = [value for value in question.values if value in code] or question.values[usual : usual + 1]
        return ", ".join(f"`{value}`" for value in written[:3] or question.exceptions) or "Exception"

    def _places(self) -> list[str]:
        head = "raise" if self._question.kind is Kind.RAISE else "nothing"
        deciding = [(visit, places) for visit, places in self._report.findings if visit.decides]
        places = [(visit, one) for visit, found in self._report.findings if not visit.decides for one in found]
        lines = [self._say("unconnected" if self._report.unconnected else head), ""]
        for number, (visit, place) in enumerate(places[:MAX_PLACES], 1):
            lines += [f"{number}. {self._place(visit.function, place)}", *self._around(visit, place)]
            asked = [guard.line for guard in place.tests]
            for other, answers in [*deciding]:
                if other.before is visit and other.call and other.call.line in asked:
                    deciding.remove((other, answers))  # each is told once
                    lines += self._decision(other.function, answers)
        if len(places) > MAX_PLACES:
            lines += ["", self._say("more", count=len(places) - MAX_PLACES)]
        return [*lines, "", self._say("undecided"), ""] if len(places) > 1 else [*lines, ""]

    def _place(self, function: Function, place: Place) -> str:
        one = place.statement
        where = f"{function.path}:{one.line}" + (f"-{one.last_line}" if one.last_line > one.line else "")
        text = self._say(place.kind, place=where, function=function.title, code=_short(one.shown))
        return text + (self._say("origin", code=_cited(function.path, place.origin)) if place.origin else "")

    def _around(self, visit: Visit, place: Place) -> list[str]:
        path = visit.function.path
        lines = self._conditions(path, place.conditions)
        if place.passed:
            codes = ("else: " * (guard.kind == "else") + _cited(path, guard) for guard in place.passed[:5])
            lines.append(self._say("passed", codes=", ".join(codes)))
        if place.related:
            lines.append(self._say("related", codes=", ".join(_cited(path, one) for one in place.related[:6])))
        if visit.before is not None:
            lines.append(self._say("reached", steps=_steps(visit)))
        return [f"   - {line}" for line in lines + [self._say("guessed")] * visit.guessed]

    def _conditions(self, path: str, guards: Iterable[Guard]) -> list[str]:
        return [self._say("otherwise" if one.kind == "else" else "when", code=_cited(path, one)) for one in guards]

    def _decision(self, function: Function, places: list[Place]) -> list[str]:
        lines = [f"   - {self._say('decides', function=function.title)}"]
        for one in places:
            conditions = self._conditions(function.path, one.conditions)
            lines.append(f"     - {', '.join([_cited(function.path, one.statement), *conditions])}")
        return lines

    def _mentions(self) -> list[str]:
        question, report, lines = self._question, self._report, list[str]()
        if question.kind is Kind.OTHER or not question.named:
            lines = [self._say("kinds"), ""]
        elif question.kind is not Kind.WHERE and any(any(found) for found in report.mentions.values()):
            lines = [self._say("unseen"), ""]
        for title, (definitions, uses) in report.mentions.items():
            lines += self._mentioned(f"`{title}`", definitions, uses)
        for name, path in report.files.items() if not report.mentions else ():
            lines += [self._say("file", name=f"`{name}`", path=path) if path else self._not_found(f"`{name}`"), ""]
        return lines

    def _mentioned(self, name: str, definitions: list[Hit], uses: list[Hit]) -> list[str]:
        if not definitions and not uses:
            return [self._not_found(name), ""]
        lines = [self._say("defined" if definitions else "undefined", name=name), *self._hits(definitions), ""]
        return [*lines, *([self._say("used"), *self._hits(uses)] if uses else [self._say("no_uses")]), ""]

    def _not_found(self, name: str) -> str:
        listing = [name for name in self._transcript.listing() if "/" not in name.rstrip("/")]
        return self._say("not_found", name=name, listing=", ".join(listing[:MAX_LISTED]) or ".")

    def _hits(self, hits: list[Hit]) -> list[str]:
        lines = [f"- {hit.path}:{hit.line}: `{_short(hit.text)}`" for hit in hits[:MAX_LISTED]]
        return lines + [self._say("more", count=len(hits) - MAX_LISTED)] * (len(hits) > MAX_LISTED)


def _ends(functions: Sequence[Function]) -> list[str]:
    """How the functions end in which no place was recognised."""
    statements = ((function.path, one) for function in functions for one in function.statements)
    ends = [f"- {_cited(path, one)}" for path, one in statements if one.text.startswith(("return", "raise", "throw"))]
    heads = [f"- `{_short(function.header)}` ({function.path}:{function.line})" for function in functions]
    return (ends or heads)[:MAX_LISTED]


def _steps(visit: Visit) -> str:
    steps: list[str] = []
    while visit.before and visit.call:
        function, line = visit.before.function, visit.call.line
        code = _short(function.source.text.split("\n")[line - 1])
        steps.append(f"`{function.title}`: `{code}` ({function.path}:{line})")
        visit = visit.before
    return " → ".join(reversed(steps))


def _cited(path: str, code: Guard | Statement) -> str:
    return f"`{_short(code.text if isinstance(code, Guard) else code.shown)}` ({path}:{code.line})"


def _short(text: str) -> str:
    text = " ".join(text.split()).replace("`", "'")
    return text if len(text) <= 120 else f"{text[:119]}…"
