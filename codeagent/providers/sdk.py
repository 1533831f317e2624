"""Imports the `openai` SDK without the two thirds of it that are descriptions of data.

`openai.types` holds some four hundred modules of pydantic models and typed dicts, which the SDK imports when it is
imported. Requests are sent here as bytes and events read as plain JSON, so none of them is used. While the SDK is
imported, its packages of types are therefore only entered into the table of modules; one whose contents somebody
asks for after all is then run as usual. That halves the time from a cold start to the first request.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import openai

_TYPES = "openai.types"


def import_openai() -> type[openai.OpenAI]:
    """The SDK's client. `import openai` is cheap after this."""
    # With its first request the SDK asks for the platform's whole name, for which Python starts `uname -p`. It costs
    # milliseconds, and until the new process runs its program, it has the session's lock open as well.
    vars(platform.uname()).setdefault("processor", "")
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        from openai import OpenAI
    finally:
        sys.meta_path.remove(finder)
    return OpenAI


@contextmanager
def without_trio() -> Iterator[None]:
    """Inside, trio counts as not installed.

    The HTTP client loads it where it is installed, which costs as much as a tenth of the SDK, for an event loop that
    nothing here runs.
    """
    hidden: dict[str, Any] = {} if "trio" in sys.modules else {"trio": None}
    sys.modules.update(hidden)
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)


class _Package(ModuleType):
    """A package that runs when one of its names is asked for that is no module already imported."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)  # asked by the import system, which must not run it
        spec = self.__spec__
        if spec is None or not isinstance(spec.loader, _Later):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        spec.loader = real = spec.loader.real
        self.__class__ = ModuleType  # type: ignore[assignment]  # from now on a module like any other
        real.exec_module(self)
        return getattr(self, name)


class _Later(Loader):
    def __init__(self, real: Loader) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet: see `_Package`."""


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _TYPES and not fullname.startswith(f"{_TYPES}."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None or spec.submodule_search_locations is None:
            return spec
        spec.loader = _Later(spec.loader)
        return spec
