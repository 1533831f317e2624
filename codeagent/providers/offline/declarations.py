"""What single lines say: which declare a type or a function, and where a name comes from."""

from __future__ import annotations

import re

from codeagent.providers.offline.source import Source, one_line

_JAVA_LANG = frozenset(
    "String StringBuilder Object Class Integer Long Short Byte Double Float Boolean Character Number Math System"
    " Thread Runnable Iterable Comparable CharSequence Enum Record Exception RuntimeException Throwable Error".split()
)


def is_library_type(source: Source, name: str) -> bool:
    """Whether a type of Java comes with it: imported from there, or there without an import."""
    if source.language != "java":
        return False
    imported = re.search(rf"^import\s+(?:static\s+)?(\w+)[\w.]*\.{re.escape(name)}\s*;", source.clean, re.MULTILINE)
    return imported.group(1) in ("java", "javax", "jakarta") if imported else name in _JAVA_LANG


def imported_from(source: Source, name: str) -> str:
    """The module that a file imports a name from, as a path without suffix; empty when it does not."""
    text = "\n".join(source.lines.values())
    word = re.escape(name)
    for pattern in (
        rf"from\s+([.\w]+)\s+import\s+(?:\([^()]*?|[^()\n]*?)(?<![\w.]){word}\b",
        rf"import\s*\{{[^{{}}]*?\b{word}\b[^{{}}]*\}}\s*from\s*['\"]([^'\"]+)['\"]",
        rf"\{{[^{{}}]*?\b{word}\b[^{{}}]*\}}\s*=\s*require\(\s*['\"]([^'\"]+)['\"]",
    ):
        if match := re.search(pattern, text):
            module = match.group(1)
            return re.sub(r"\.[cm]?[jt]sx?$", "", module).lstrip("./") if "/" in module else _dotted(module)
    return ""


def _dotted(module: str) -> str:
    return module.strip(".").replace(".", "/")


def is_module(path: str, module: str) -> bool:
    stem = re.sub(r"\.\w+$", "", path)
    return any(f"/{stem}".endswith(f"/{module}{suffix}") for suffix in ("", "/__init__", "/index", "/mod"))


def declares_type(name: str, text: str) -> bool:
    """Whether a line declares the type `name`."""
    word = re.escape(name)
    return (
        re.search(
            rf"(?<![\w.])(?:class|interface|enum|record|trait|object|protocol|type|namespace)\s+{word}(?![\w$])", text
        )
        is not None
        or re.search(rf"(?<![\w.])(?:struct|union|impl)\s+{word}\s*(?:\{{|:|$)", text) is not None
    )


def builds_on(name: str, text: str) -> bool:
    """Whether a line declares a type that extends or implements `name`."""
    word = re.escape(name)
    return (
        re.search(
            rf"\b(?:class|interface|record|enum|struct|impl|object)\b.*(?:\bextends\b|\bimplements\b|[:(,]|\bfor\b).*"
            rf"(?<![\w$]){word}(?![\w$])",
            text,
        )
        is not None
        or re.search(rf"^\s*(?:extends|implements)\b.*(?<![\w$]){word}(?![\w$])", text) is not None
    )


def defines_function(name: str, text: str) -> bool:
    """Whether a line looks like the head of a function `name` with a body."""
    word = re.escape(name)
    if re.search(rf"(?<![\w.])(?:def|fn|func|function|fun)\s+(?:\([^)]*\)\s*)?(?:[\w$]+::)?{word}\s*[(<\[]", text):
        return True
    if re.search(rf"(?<![\w$]){word}\s*[:=]\s*(?:async\s*)?(?:function\b|\([^()]*\)\s*(?::[^=]+)?=>|\w+\s*=>)", text):
        return True
    match = re.search(rf"(?<![\w$.>]){word}\s*\(", text)
    if match is None or re.search(r";\s*(?://.*|/\*.*)?$", text):
        return False
    before = one_line(text[: match.start()])
    if re.search(
        r"(?:^|[^\w])(?:return|new|throw|await|if|while|for|else|case|assert|yield|not|and|or|in|is|raise|print)$|[=(,!&|+?.\-]$",
        before,
    ):
        return False
    after = text[match.end() :]
    return (
        re.search(r"(?:\{.*|[,(]|\)\s*(?:const|noexcept|override|throws .*|->.*|:.*)?)\s*$", after) is not None
        or not after.strip()
    )
