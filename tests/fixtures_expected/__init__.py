"""What the tests expect of `fixtures/`. It lies here so that no answer is ever in a mounted tree."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures"


@dataclass(frozen=True)
class Span:
    """Lines of a file of the fixture, both ends included; `text` stands somewhere in them."""

    path: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Case:
    """One fixture.

    `null_lines` is where the symptom comes from: the line that returns nothing, with its condition. `cause` is
    what has to change. `misleading` looks like the cause and is not. `check` fails now, by running, and passes
    with `right_patch`; with `wrong_patch` it still fails. Patches are for `patch -p1` in the fixture's folder.
    """

    name: str
    question: str
    question_zh: str
    check: str
    failing: str
    null_lines: Span
    cause: Span
    misleading: Span

    @property
    def root(self) -> Path:
        return FIXTURES / self.name

    @property
    def right_patch(self) -> Path:
        return Path(__file__).parent / self.name / "right.patch"

    @property
    def wrong_patch(self) -> Path:
        return Path(__file__).parent / self.name / "wrong.patch"


_USERS = "src/main/java/com/acme/users"

USER_SERVICE = Case(
    name="user-service",
    question="why does UserService return null",
    question_zh="为什么 UserService.findById 返回 null？",
    check="make test",
    failing="Tests run: 23, Failures: 1",
    null_lines=Span(f"{_USERS}/repository/CachingUserRepository.java", 26, 28, "absent.contains(id)"),
    cause=Span(f"{_USERS}/repository/CachingUserRepository.java", 44, 47, "public void save"),
    misleading=Span(f"{_USERS}/repository/TableUserRepository.java", 19, 21, "row.isDeleted()"),
)
ORDER_PRICING = Case(
    name="order-pricing",
    question="why does PriceBook.price_for return None",
    question_zh="PriceBook.price_for 为什么会返回 None？",
    check="python3 -m pytest",
    failing="1 failed, 14 passed",
    null_lines=Span("pricing/catalog/price_book.py", 15, 21, "covers(day)"),
    cause=Span("pricing/catalog/period.py", 22, 22, "day < self.end"),
    misleading=Span("pricing/currency/rates.py", 19, 20, "MAX_AGE"),
)
FEATURE_FLAGS = Case(
    name="feature-flags",
    question="why does FlagClient.evaluate return null",
    question_zh="FlagClient.evaluate 为什么返回 null？",
    check="node --test",
    failing="# fail 1",
    null_lines=Span("src/rules/rollout.js", 9, 15, "return null"),
    cause=Span("src/rules/buckets.js", 15, 15, "Math.trunc"),
    misleading=Span("src/store/snapshot-store.js", 32, 34, "isOld"),
)
CONFIG_STORE = Case(
    name="config-store",
    question="why does config_get return NULL",
    question_zh="为什么 config_get 返回空？",
    check="make test",
    failing="658 checks, 3 failed",
    null_lines=Span("src/table.c", 65, 67, "slot->name == NULL"),
    cause=Span("src/table.c", 94, 105, "slot->name = NULL"),
    misleading=Span("src/store.c", 39, 41, "name_join"),
)
CASES = (USER_SERVICE, ORDER_PRICING, FEATURE_FLAGS, CONFIG_STORE)
