"""The scanners find functions, statements and conditions in the languages that they know, and never fail."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.providers.offline.analysis import (
    all_calls,
    calls_behind,
    declared_types,
    imported_from,
    nothing_places,
)
from codeagent.providers.offline.question import NULLS
from codeagent.providers.offline.source import Source, is_test, scan, without_comments


def source(path: str, text: str) -> Source:
    return scan(path, text)


def nulls(path: str, text: str) -> list[tuple[str, int, list[str]]]:
    """Function, line and conditions of every place that returns nothing."""
    scanned = source(path, text)
    return [
        (function.title, place.statement.line, [guard.text for guard in place.conditions])
        for function in scanned.functions
        for place in nothing_places(function, NULLS)
    ]


def test_java() -> None:
    assert nulls(
        "A.java",
        """
@Service("x")
public class A<T extends B> implements C {
    private final Map<String, T> all = Map.of();
    @Override
    @Cached(ttl = 5)
    public <K> T
    find(final K key) throws IOException {
        if (key == null) { return null; }
        else if (key.equals("{")) return null;
        switch (kind) {
            case ONE: return null;
            default: break;
        }
        try {
            all.forEach((k, v) -> { if (v == null) return null; });
        } catch (IOException | RuntimeException gone) {
            return null;
        }
        return (key != null) ? all.get(key) : null; /* return null */
    }
    boolean empty() { return first() == null; }
    T plain(String key) { return this.all.get(key); }
    Map.Entry<String, T> last(String key) throws A.Lost { return null; }
    enum Kind { ONE, TWO }
}
""",
    ) == [
        ("A.find", 9, ["key == null"]),
        ("A.find", 10, ['key.equals("{")']),
        ("A.find", 12, ["case ONE"]),
        ("A.find", 18, ["catch (IOException | RuntimeException gone)"]),
        ("A.find", 20, []),
        ("A.plain", 23, []),
        ("A.last", 24, []),
    ]


def test_python() -> None:
    assert nulls(
        "a.py",
        '''
class A(B):
    @property
    async def find(self, key: str = ":", *more) -> "C | None":
        """if key: return None"""
        if (key is None
                or key == "#"):
            return None
        elif key: return
        with open(key) as f:
            for line in f:
                if line: return None
            else:
                return None
        while True:
            pass
    def never(self): return self.x is None
    def short(self, key: str) -> "A | None": return None
    def may(self, key):
        value = None
        for one in self.all:
            if one == key:
                value = one
        return value
    def of(self, key):
        match key:
            case 1:
                return None
            case _:
                return key
    def ends(self, key):
        if key:
            return 1
    def settles(self, key):
        value = self.all[key]
        if value is None:
            value = self.usual
        return value
    def complete(self, key):
        try:
            return 1
        except KeyError:
            raise
''',
    ) == [
        ("A.find", 8, ['key is None or key == "#"']),
        ("A.find", 9, ["key"]),
        ("A.find", 12, ["line"]),
        ("A.find", 14, [""]),
        ("A.short", 18, []),
        ("A.may", 24, []),
        ("A.of", 28, ["case 1"]),
        ("A.ends", 33, []),
    ]


def test_javascript_and_typescript() -> None:
    assert nulls(
        "a.ts",
        """
export class Store<T> extends Base {
  private cache: Map<string, T> = new Map()
  get(key: string): T | null {
    if (!key) return null
    return this.cache.get(key) ?? null
  }
}
const pick = (all) => all.length ? all[0] : null;
export const take = async (all) => {
  const text = `${all} return null`
  return undefined
}
function outer({ a, b }) {
  return inner(a, null)
}
module.exports = { named(key) { return null; } }
""",
    ) == [
        ("Store.get", 5, ["!key"]),
        ("Store.get", 6, []),
        ("pick", 9, []),
        ("take", 12, []),
        ("named", 17, []),
    ]


def test_c_and_go() -> None:
    assert nulls(
        "a.c",
        """
#define FAIL(x) \\
    do { return NULL; } while (0)
static const char *
find(struct t *t, const char *key)
{
    for (int i = 0; i < t->n; i++)
        if (t->at[i] == '{')
            return NULL;
    return t ? t->first : NULL;
}
""",
    ) == [("find", 9, ["t->at[i] == '{'"]), ("find", 10, [])]
    assert nulls(
        "a.go",
        """
package a

func (s *Store) Get(key string) (*Item, error) {
	if item, ok := s.items[key]; ok {
		return item, nil
	}
	return nil
}
""",
    ) == [("Store.Get", 8, [])]


def test_comments_and_strings_are_blanked_in_place() -> None:
    text = "a = \"x # y\" # c\nb = '''1\n2'''\n"
    assert without_comments(text, "a.py") == "a = \"     \"    \nb = '   \f   '\n"
    assert without_comments("a /* } */ b // {\n'}'", "a.java") == "a         b     \n' '"


def test_a_text_that_is_cut_in_a_string_or_comment_keeps_its_lines() -> None:
    assert without_comments('x = """a\nb\n', "a.py") == 'x = "   \f  '
    assert without_comments("/* a\nb\n", "a.java") == "    \n \n"
    assert nulls("a.py", 'def f():\n    return None\n\nx = """cut\n') == [("f", 2, [])]


def test_tests_are_recognised_by_their_paths() -> None:
    paths = ["src/test/java/A.java", "a/test_x.py", "a/x_test.go", "a/b.spec.ts", "a/BTest.java", "spec/a.rb"]
    assert [is_test(path) for path in paths] == [True] * 6
    assert [is_test(path) for path in ("src/a.py", "latest/contest.py", "src/testimony.py")] == [False] * 3


@pytest.mark.parametrize("suffix", ["py", "java"])
@pytest.mark.parametrize("piece", ["a", "a.b(", "{", "return a or ", "if (x) ", "import {a, ", "static A<B"])
@pytest.mark.slow
def test_a_hostile_file_takes_no_time_to_speak_of(suffix: str, piece: str) -> None:
    line = (piece * 2_000)[:2_000]
    start = time.process_time()
    scanned = source(f"a.{suffix}", "class A {\n  int f(int x) {\n" + f"{line}\n" * 20)
    for function in scanned.functions:
        all_calls(function)
        calls_behind(function, nothing_places(function, NULLS))
    imported_from(scanned, "b")
    declared_types(scanned, "a")
    assert time.process_time() - start < 3.0


def test_deep_nesting_ends_nothing() -> None:
    code = "def f(x):\n" + "".join(f"{' ' * depth}if x:\n" for depth in range(1, 1_500))
    assert nulls("a.py", f"{code}{' ' * 1_500}return None\n return 1\n") == []
    assert nulls("a.java", "class A { int f() {" + "if (x) {" * 1_500 + "return null;") == []


SNIPPETS = [
    "if ",
    "return null",
    "def f(x):",
    "class A",
    "case 1:",
    "lambda: ",
    "for (;;) ",
    "function f()",
    "    ",
    "\n",
]
SNIPPETS += ["{", "}", "(", ")", ";", ":", '"', "'", '"""', "/*", "*/", "//", "#", "`", "=>", "\\", "\t", "é", "else"]


@given(
    st.lists(st.sampled_from(SNIPPETS), max_size=80).map("".join),
    st.sampled_from(["py", "java", "ts", "c", "go", "rs"]),
)
def test_any_text_is_scanned_within_its_lines(text: str, suffix: str) -> None:
    scanned = source(f"a.{suffix}", text)
    assert len(scanned.clean) == len(text)
    last = text.count("\n") + 1
    for function in scanned.functions:
        assert 1 <= function.line <= last
        for statement in function.statements:
            assert 1 <= statement.line <= statement.last_line <= last
        nothing_places(function, NULLS)
