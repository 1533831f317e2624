"""The answer in words: every place with its citation, and what these rules cannot say."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from codeagent.providers.offline.investigation import Investigation, Visit
from codeagent.providers.offline.source import Code, Function
from codeagent.providers.offline.transcript import Transcript, place

MAX_PLACES, MAX_LISTED, MAX_NOTES, MAX_LEFT = 20, 10, 8, 5
_PHRASES = """
no_model  | No language model was used: this was found by fixed rules that search and read the code.
          | 没有使用语言模型：以下内容由固定规则搜索和阅读代码得出。
nothing   | {target}: places that can give {values} back, as they are reached; which one applies, rules cannot tell:
          | {target}：可能返回 {values} 的位置，按到达顺序排列；仅凭规则无法判断实际是哪一处：
raise     | {target}: places that raise {values}, as they are reached; which one applies, rules cannot tell:
          | {target}：抛出 {values} 的位置，按到达顺序排列；仅凭规则无法判断实际是哪一处：
apart     | No way from {target} to a place that raises {values} was found; it is raised here:
          | 没有找到从 {target} 到抛出 {values} 的路径；它在以下位置抛出：
place     | {place} in `{function}`: {code} | {place}，`{function}` 中：{code}
maybe     | {place} in `{function}`: {code}, which gives nothing for a missing key, where it looks one up
          | {place}，`{function}` 中：{code}，若为查找，键不存在时没有值
falls_off | {place} is the last statement of `{function}`, whose end can be reached without a `return`
          | {place} 是 `{function}` 的最后一条语句，函数可能没有 `return` 就结束
decides   | {place} in `{function}`, which decides a condition: {code} | {place}，`{function}` 决定一个条件：{code}
when      | when {code} | 条件：{code}
otherwise | in the other case of {code} | {code} 不成立时
passed    | when this did not end it earlier: {code} | 前面这个条件没有提前结束时：{code}
leaves    | a `break` or `continue` depends on this: {code} | `break` 或 `continue` 取决于：{code}
set       | a value in question is set here: {code} | 相关的值在这里设置：{code}
reached   | reached through {code} | 经由 {code}
guessed   | the receiver's type is not known; chosen by the name | 接收者的类型未知，按名称选择
defined   | `{name}` is defined here: | `{name}` 定义在：
mentioned | `{name}` is mentioned here: | 提到 `{name}` 的位置：
only      | No definition of `{name}` was recognised; it is mentioned here: | 没有识别出 `{name}` 的定义；提到它：
missing   | Nothing found: no `{name}` is defined in this repository, nor mentioned, as far as it was searched.
          | 没有找到：就搜索所及，仓库中没有定义、也没有提到 `{name}`。
others    | No definition of `{name}` was recognised; others of that name: | 没有识别出 `{name}` 的定义；其他同名的：
no_place  | Nothing found: no place that gives or raises {values} was recognised for {target}.
          | 没有找到：没有识别出 {target} 产生 {values} 的位置。
read      | This is what was read: | 读到的内容：
limits    | What limited this: | 受限之处：
gaps      | Some calls failed, and their part is missing: {code}. | 部分调用失败，其内容缺失：{code}。
unread    | Files that matched and were not read to their end: {code}. | 匹配而没有读完的文件：{code}。
unwritten | Left out, as names or lines cannot be written exactly: {code}. | 名称或行无法准确写出，略去：{code}。
unfollowed | Functions further down, not looked at: {code}. | 更深处没有查看的函数：{code}。
stopped   | The search ended at its limit after {code} rounds; some calls were not followed.
          | 搜索在 {code} 轮后到达上限；部分调用没有跟踪。
kinds     | Without a model only "why does X return null", "why does X raise Y" and "where is X" can be answered.
          | 没有模型时只能回答“X 为什么返回 null”“X 为什么抛出 Y”“X 在哪里”这类问题。
need      | NEEDS INPUT: a class, a function or a file of this repository, by name, as in "where is UserService".
          | NEEDS INPUT: 请按仓库中的写法给出类、函数或文件的名称，例如“UserService 在哪里”。
"""


def compose(found: Investigation, transcript: Transcript) -> str:
    """The whole answer, in Chinese for a question in Chinese, else in English."""
    question = found.question
    rows = re.findall(r"^(\w+) *\| (.*?) *\| (.*)$", re.sub(r"\n +\|", "|", _PHRASES), re.MULTILINE)
    phrases = {name: texts[question.chinese] for name, *texts in rows}
    titles = [found.others.get(name, name) for name in found.names] or question.exceptions + question.files
    shown = {word for _, at in found.places for word in at.code.text.split()}
    python = any(one.path.endswith(".py") for one in found.roots)
    values = [one for one in question.values if one in shown] or question.values[python:][:1] or question.exceptions
    target, about = (", ".join(f"`{one}`" for one in some) for some in (titles, values[:3]))

    def say(phrase: str, code: str = "", **more: str) -> str:
        return str(phrases[phrase]).format(code=code, target=target, values=about or "Exception", **more)

    lines = [line for name in found.others for line in (say("others", name=name), "")]
    if found.places:
        lines += [say("apart" if found.apart else question.kind), "", *_places(found, say)]
    else:
        partly = not titles or question.kind == "other" or len(found.names) < len(question.names)
        lines += [say("kinds"), ""] if partly else []
        lines += _nothing(found, say)
    for title, (defined, uses) in found.mentions.items():
        for phrase, hits in (("defined", defined), ("mentioned" if defined else "only", uses)):
            listed = _cut([f"{place(path, line)}: {_quoted(text)}" for path, line, text in hits], MAX_LISTED)
            lines += [say(phrase, name=title), *map("- {}".format, listed), ""] if hits else []
        lines += [] if defined or uses else [say("missing", name=title), ""]
    left = {kind: _cut([*map(_quoted, sorted(some))], MAX_LEFT) for kind, some in transcript.left.items() if some}
    left |= {"stopped": [str(transcript.rounds)]} if transcript.wanted else {}
    limits = [f"- {say(kind, ', '.join(some))}" for kind, some in left.items()]
    lines += [*([say("limits"), *limits, ""] if limits else []), say("no_model")]
    lines += [] if titles else ["", say("need")]
    return "".join(one if one.isprintable() or one == "\n" else "…" for one in "\n".join([*lines, ""]))


def _places(found: Investigation, say: Callable[..., str]) -> list[str]:
    """All places as a numbered list, what was asked for first."""
    lines, places = list[str](), sorted(found.places, key=lambda one: one[1].kind == "decides")
    for number, (visit, at) in enumerate(places[:MAX_PLACES], 1):
        function, first, last = visit.function, at.code.line, at.code.node.end_point.row + 1
        where = place(function.path, f"{first}-{last}" if last > first else first)
        notes = _cut([say(one.kind, _cited(function, one)) for one in at.notes], MAX_NOTES)
        notes += [say("reached", " → ".join(_steps(visit)))] if visit.before else []
        lines += [f"{number}. {say(at.kind, _quoted(at.code.text), place=where, function=function.title)}"]
        lines += [f"{' ' * len(f'{number}. ')}- {note}" for note in notes + [say("guessed")] * visit.guessed]
    return [*lines, *[f"\n… (+{len(places) - MAX_PLACES})"] * (len(places) > MAX_PLACES), ""]


def _nothing(found: Investigation, say: Callable[..., str]) -> list[str]:
    """That no place was found, and what was read of the functions in question."""
    ends = [_cited(one, code) for one in found.roots for code in one.statements if code.kind in ("return", "raise")]
    known = found.question.kind in ("nothing", "raise") and any(any(hits) for hits in found.mentions.values())
    listed = [say("read"), *map("- {}".format, _cut(ends, MAX_LISTED))] if ends else []
    return [say("no_place"), *listed, ""] if found.roots or known else []


def _cut(some: Sequence[str], most: int) -> list[str]:
    """What is listed of some, and how many more there are."""
    return [*some[:most], *[f"… (+{len(some) - most})"] * (len(some) > most)]


def _steps(visit: Visit) -> list[str]:
    if not visit.before or not visit.call:
        return []
    function, line = visit.before.function, visit.call.line
    code = _quoted(function.text.split("\n")[line - 1])
    return [*_steps(visit.before), f"`{function.title}`: {code} ({place(function.path, line)})"]


def _cited(function: Function, code: Code) -> str:
    return f"{_quoted(code.text)} ({place(function.path, code.line)})"


def _quoted(text: str) -> str:
    """A line between more backticks than it has in a row, so that it stays exact; a place in it is none of ours."""
    line = re.sub(r"(\.\w{1,8}:)\d+", r"\1…", re.sub(r"^(.{119}).{2,}", r"\1…", " ".join(text.split())))
    fence = max(re.findall("`+", line), default="") + "`"
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"
