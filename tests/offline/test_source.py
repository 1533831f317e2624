"""What is read from source files in the languages that are known; nothing that is in them ends the program."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.providers.offline import source
from codeagent.providers.offline.question import NULLS
from codeagent.providers.offline.source import calls_in, functions_of, types_of

Found = list[tuple[str, int, list[str]]]


def nulls(path: str, text: str) -> Found:
    """Function, line and notes of every place that returns nothing."""
    return [
        (function.title, place.code.line, [f"{note.kind} {note.text}" for note in place.notes])
        for function in functions_of(path, text)
        for place in function.nothing(NULLS)
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
        ("A.find", 9, ["when key == null"]),
        ("A.find", 10, ["otherwise key == null", 'when key.equals("{")']),
        ("A.find", 12, ["when case ONE"]),
        ("A.find", 18, ["when catch (IOException | RuntimeException gone)"]),
        (
            "A.find",
            20,
            [
                "passed key == null",
                'passed key.equals("{")',
                "passed case ONE",
                "leaves default",
                "passed catch (IOException | RuntimeException gone)",
            ],
        ),
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
    def kept(self): return self._kept
    def drop(self): self._kept = None
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
        ("A.find", 8, ['when key is None or key == "#"']),
        ("A.find", 9, ['otherwise key is None or key == "#"', "when key"]),
        ("A.find", 12, ["when line"]),
        ("A.find", 14, ['passed key is None or key == "#"', "passed key", "passed line"]),
        ("A.short", 18, []),
        ("A.may", 24, ["set value = None"]),
        ("A.of", 28, ["when case 1"]),
        ("A.ends", 33, ["passed key"]),
        ("A.kept", 34, ["set self._kept = None"]),
    ]


def test_python_whose_end_cannot_be_reached() -> None:
    code = """
def one(x):
    if x:
        return 1
    elif x is None:
        raise x
    else:
        return 2
def two(x):
    with x:
        return 1
def three(x):
    try:
        x()
    except OSError:
        return 1
    else:
        return 2
    finally:
        x.close()
def four(x):
    while True:
        if x():
            return 1
def five(x):
    for one in x:
        return one
"""
    assert nulls("a.py", code) == [("five", 27, [])]


def test_what_is_given_where_there_is_nothing_counts() -> None:
    code = (
        "Item f(K k) {\n return all.stream().findAny().orElse(null);\n}\nItem g(K k) {\n return make(k, null);\n}\n"
    )
    assert nulls("A.java", f"class A {{\n{code}}}\n") == [("A.f", 3, [])]
    assert nulls("a.py", "def f(x):\n    return next(iter(x), None)\n") == [("f", 2, [])]
    gets = "Item f(K k) {\n return all.remove(k);\n}\nItem g(K k) {\n return box.get(k);\n}\n"
    assert nulls("A.java", f"class A {{ HashMap<K, Item> all; Box box;\n{gets}}}\n") == [("A.f", 3, [])]


def test_a_call_that_is_only_compared_gives_nothing_back() -> None:
    (function,) = functions_of("a.py", "def f(x):\n    if x:\n        return a(x)\n    return b(x) is None\n")
    assert [call.name for call in function.calls_behind([])] == ["a"]


def test_what_only_goes_on_with_a_loop_or_ends_it_did_not_end_the_function() -> None:
    code = """
def find(all):
    for one in all:
        if one.old:
            continue
        if one.last:
            break
        if one.fits:
            return one
    return None
"""
    assert nulls("a.py", code) == [("find", 10, ["leaves one.old", "leaves one.last", "passed one.fits"])]


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
        ("Store.get", 5, ["when !key"]),
        ("Store.get", 6, ["passed !key"]),
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
    ) == [("find", 9, ["when t->at[i] == '{'"]), ("find", 10, ["passed t->at[i] == '{'"])]
    assert nulls(
        "a.go",
        """
package a

func (s *Store) Get(key string) (*Item, error) {
	if item, ok := s.items[key]; ok {
		return item, nil
	}
	return nil, errMissing
}
""",
    ) == [("Store.Get", 8, ["passed ok"])]


def test_what_is_raised_again_or_made_for_the_caller_counts() -> None:
    code = (
        "def one(x):\n    try:\n        x()\n    except (OSError, Lost) as e:\n        if x:\n            raise\n"
        "    raise Other('Lost')\n\n\ndef two(x):\n    return errors.Lost(x)\n\n\ndef three():\n    return Lost\n"
    )
    places = {one.name: [place.code.line for place in one.raising(["Lost"])] for one in functions_of("a.py", code)}
    assert places == {"one": [6], "two": [11], "three": []}


def test_a_text_that_is_cut_in_the_middle_is_read_as_far_as_it_goes() -> None:
    assert nulls("a.py", 'def f():\n    return None\n\nx = """cut\n') == [("f", 2, [])]
    assert nulls("A.java", "class A {\n  B f() {\n    return null;\n  }\n  B g() { /* cut")[0][1:] == (3, [])
    assert nulls("a.xyz", "def f():\n    return None\n") == []


def test_types_are_those_that_a_file_declares() -> None:
    text = "private final Map<K, V> users; def cache(self) -> 'Cache': pass; x = new Box(); y: Optional[Item]"
    assert [types_of(text, name) for name in ("users", "cache", "x", "y", "z")] == [
        ["Map"],
        ["Cache"],
        ["Box"],
        ["Item"],
        [],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["py", "java", "ts"])
@pytest.mark.parametrize("piece", ["a", "a.b(", "{", "return a or ", "if (x) ", "def f(x): ", "static A<B", "'"])
def test_a_hostile_file_takes_no_time_to_speak_of(suffix: str, piece: str) -> None:
    line = (piece * 2_000)[:2_000]
    start = time.process_time()
    for function in functions_of(f"a.{suffix}", "class A {\n  int f(int x) {\n" + f"{line}\n" * 20)[:60]:
        function.calls_behind(function.nothing(NULLS))
        list(calls_in(function.node))
    types_of(line * 20, "a")
    assert time.process_time() - start < 4.0


@pytest.mark.slow
def test_nesting_as_deep_as_a_file_is_long_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a stack for it, the parser itself ends the whole program."""
    deep = "class A:\n  def f(x):\n    " + "\n    ".join(["/*" * 1_000] * 100)
    assert [one.name for one in functions_of("a.py", deep)] in (["f"], [])
    for seconds in (0.4, 1.3):  # a parser that is stopped takes itself apart, deeper than it has read
        monkeypatch.setattr(source, "MAX_SECONDS", seconds)
        functions_of(f"{seconds}.py", deep)
    code = "def f(x):\n" + "".join(f"{' ' * depth}if x:\n" for depth in range(1, 1_500))
    nulls("a.py", f"{code}{' ' * 1_500}return None\n return 1\n")
    nulls("a.java", "class A { int f() {" + "if (x) {" * 1_500 + "return null;")


SNIPPETS = """if ;return null;def f(x):;class A;case 1:;lambda: ;function f();    ;{;};(;);:;,;";';/*;*/;//;#;`;=>;\\
;\t;é;else;
;x = ;.get(;try:;except E:;match x:;with a:;\"\"\"""".split(";")


@given(
    st.lists(st.sampled_from(SNIPPETS), max_size=80).map("".join),
    st.sampled_from(["py", "java", "ts", "c", "go", "js"]),
)
def test_any_text_is_read_within_its_lines(text: str, suffix: str) -> None:
    last = text.count("\n") + 1
    for function in functions_of(f"a.{suffix}", text):
        places = [*function.nothing(NULLS), *function.raising([]), *function.raising(["E"])]
        assert all(1 <= place.code.line <= last for place in places)
        assert all(1 <= call.line <= last for call in function.calls_behind(places))


def test_a_function_of_very_many_statements_takes_no_time_to_speak_of() -> None:
    start = time.process_time()
    for function in functions_of("A.java", "class A { B f(int x) {\n" + "if (x) return null;\n" * 10_000 + "}}"):
        function.calls_behind(function.nothing(NULLS))
    assert time.process_time() - start < 4.0
