"""A package's public names, each imported from its module when it is first used."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # like the one in `typing`, whose import takes longer than this module's
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def lazy_exports(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Makes the functions `__getattr__` and `__dir__` of a package (PEP 562).

    Args:
        package: its `__name__`.
        modules: for each of its modules, by name, the public names that the module defines.

    Returns:
        `__getattr__`, which imports the module of a public name, and `__dir__`.
    """
    module_of = {name: module for module, names in modules.items() for name in names}
    namespace = vars(sys.modules[package])

    def get(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        value: object = getattr(import_module(f"{package}.{module_of[name]}"), name)
        namespace[name] = value
        return value

    return get, lambda: sorted({*namespace, *module_of})
