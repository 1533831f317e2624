"""The answer in words: every place with its citation, and what these rules cannot say."""

from __future__ import annotations

import re

from codeagent.providers.offline.investigation import Investigation, Visit
from codeagent.providers.offline.source import Code, Function
from codeagent.providers.offline.transcript import Transcript

MAX_PLACES = 20
MAX_LISTED = 10
_PHRASES = """
no_model  | No language model was used: this was found by fixed rules that search and read the code.
          | 没有使用语言模型：以下内容由固定规则搜索和阅读代码得出。
nothing   | {target}: places that can give {values} back, as they are reached; which one applies, rules cannot tell:
          | {target}：可能返回 {values} 的位置，按到达顺序排列；仅凭规则无法判断实际是哪一处：
raise     | {target}: places that raise {values}, as they are reached; which one applies, rules cannot tell:
          | {target}：抛出 {values} 的位置，按到达顺序排列；仅凭规则无法判断实际是哪一处：
apart     | No way from {target} to a place that raises {values} was found; it is raised here:
          | 没有找到从 {target} 到抛出 {values} 的路径；它在以下位置抛出：
place     | {place} in `{function}`: `{code}` | {place}，`{function}` 中：`{code}`
maybe     | {place} in `{function}`: `{code}`, which gives nothing for a missing key, where it looks one up
          | {place}，`{function}` 中：`{code}`，若为查找，键不存在时没有值
falls_off | {place} is the last statement of `{function}`, whose end can be reached without a `return`
          | {place} 是 `{function}` 的最后一条语句，函数可能没有 `return` 就结束
decides   | {place} in `{function}`, which decides a condition: `{code}`
          | {place}，`{function}` 决定一个条件：`{code}`
when      | when {code} | 条件：{code}
otherwise | in the other case of {code} | {code} 不成立时
passed    | when this did not end it earlier: {code} | 前面这个条件没有提前结束时：{code}
set       | a value in question is set here: {code} | 相关的值在这里设置：{code}
reached   | reached through {code} | 经由 {code}
guessed   | the receiver's type is not known; chosen by the name | 接收者的类型未知，按名称选择
defined   | `{name}` is defined here: | `{name}` 定义在：
mentioned | `{name}` is mentioned here: | 提到 `{name}` 的位置：
missing   | Nothing found: `{name}` is not in what could be searched ({code}).
          | 没有找到：在可以搜索的内容里没有 `{name}`（{code}）。
no_place  | Nothing found: no place that gives or raises {values} was recognised for {target}. This is what was read:
          | 没有找到：没有识别出 {target} 产生 {values} 的位置。读到的内容：
gaps      | Some calls failed, and their part is missing: {code}. | 部分调用失败，其内容缺失：{code}。
stopped   | The search ended at its limit after {code} rounds; some calls were not followed.
          | 搜索在 {code} 轮后到达上限；部分调用没有跟踪。
kinds     | Without a model only "why does X return null", "why does X raise Y" and "where is X" can be answered.
          | 没有模型时只能回答“X 为什么返回 null”“X 为什么抛出 Y”“X 在哪里”这类问题。
need      | NEEDS INPUT: a class, a function or a file of this repository, by name, as in "where is UserService".
          | NEEDS INPUT: 请按仓库中的写法给出类、函数或文件的名称，例如“UserService 在哪里”。
"""


def compose(found: Investigation, transcript: Transcript) -> str:
    """The whole answer, in Chinese for a question in Chinese, else in English."""
    question, roots, lines = found.question, found.roots, list[str]()
    rows = re.findall(r"^(\w+) *\| (.*?) *\| (.*)$", re.sub(r"\n +\|", "|", _PHRASES), re.MULTILINE)
    phrases = {name: texts[question.chinese] for name, *texts in rows}
    titles = found.names or (*question.exceptions, *question.files)
    places = sorted(found.places, key=lambda one: one[1].kind == "decides")  # what was asked for comes first
    shown = {word for _, place in places for word in place.code.text.split()}
    python = any(one.path.endswith(".py") for one in roots)
    values = [one for one in question.values if one in shown] or question.values[python:][:1] or question.exceptions
    about = {
        "target": ", ".join(f"`{title}`" for title in titles),
        "values": ", ".join(f"`{value}`" for value in values[:3]) or "Exception",
    }

    def say(phrase: str, code: str = "", **more: str) -> str:
        return str(phrases[phrase]).format(code=code, **about, **more)

    if not titles or question.kind == "other" or len(found.names) < len(question.names):
        lines = [say("kinds"), ""]
    if places:
        lines = [say("apart" if found.apart else question.kind), ""]
    elif roots or (question.kind in ("nothing", "raise") and any(any(hits) for hits in found.mentions.values())):
        ends = [(one, code) for one in roots for code in one.statements if code.kind in ("return", "raise")]
        lines += [say("no_place"), *(f"- {_cited(one, code)}" for one, code in ends[:MAX_LISTED]), ""]
    for number, (visit, place) in enumerate(places[:MAX_PLACES], 1):
        function, first, last = visit.function, place.code.line, place.code.node.end_point.row + 1
        where = f"{function.path}:{first}" + f"-{last}" * (last > first)
        said = say(place.kind, _short(place.code.text), place=where, function=function.title)
        notes = [say(one.kind, _cited(function, one)) for one in place.notes[:8]]
        notes += [say("reached", " → ".join(_steps(visit)))] if visit.before else []
        lines += [f"{number}. {said}", *(f"   - {note}" for note in notes + [say("guessed")] * visit.guessed)]
    lines += [f"… (+{len(places) - MAX_PLACES})"] * (len(places) > MAX_PLACES) + [""] * bool(places)
    top = ", ".join(name for name in transcript.listing()[:MAX_LISTED] if "/" not in name.rstrip("/")) or "."
    for title, ways in found.mentions.items():
        for phrase, hits in zip(("defined", "mentioned"), ways, strict=True):
            listed = [f"- {path}:{line}: `{_short(text)}`" for path, line, text in hits[:MAX_LISTED]]
            listed += [f"- … (+{len(hits) - MAX_LISTED})"] * (len(hits) > MAX_LISTED)
            lines += [say(phrase, name=title), *listed, ""] if hits else []
        lines += [] if any(ways) else [say("missing", top, name=title), ""]
    lines += [say("gaps", ", ".join(transcript.failures))] if transcript.failures else []
    lines += [say("stopped", str(transcript.rounds))] if transcript.wanted else []
    return "\n".join([*lines, say("no_model"), *([] if titles else ["", say("need")])]) + "\n"


def _steps(visit: Visit) -> list[str]:
    if not visit.before or not visit.call:
        return []
    function, line = visit.before.function, visit.call.line
    code = _short(function.text.split("\n")[line - 1])
    return [*_steps(visit.before), f"`{function.title}`: `{code}` ({function.path}:{line})"]


def _cited(function: Function, code: Code) -> str:
    return f"`{_short(code.text)}` ({function.path}:{code.line})"


def _short(text: str) -> str:
    text = " ".join(text.split()).replace("`", "'")
    return text if len(text) <= 120 else f"{text[:119]}…"
