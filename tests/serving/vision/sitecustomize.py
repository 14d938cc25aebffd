"""Lets torchvision be imported beside a torch that its compiled part was not built for.

Importing torchvision describes the operators `nms` and `qnms` to torch, which fails where its
compiled part could not be loaded. Preparing images needs none of them: declared without an
implementation, they are enough for the import. Python runs this file at every start when its
folder is on PYTHONPATH, so also in the processes that vLLM starts to inspect model classes.
"""

import sys
from importlib.abc import MetaPathFinder

DESCRIBING = "torchvision._meta_registrations"
OPERATORS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


class MissingOperators(MetaPathFinder):
    """Finds nothing; declares what is missing just before torchvision describes it.

    By then torchvision has tried to load its compiled part, so a build that fits keeps its own
    operators, and nothing here imports torch before somebody wants torchvision.
    """

    def find_spec(self, fullname, path, target=None):
        if fullname == DESCRIBING:
            import torch

            self.library = torch.library.Library("torchvision", "FRAGMENT")  # lives as long as us
            for name, signature in OPERATORS.items():
                if not hasattr(torch.ops.torchvision, name):
                    self.library.define(name + signature)


sys.meta_path.insert(0, MissingOperators())
