# SPDX-License-Identifier: Apache-2.0
"""The forms in which PyTorch offers each op, by family. FORMS: op -> function that fills a Work; ABSENT: op -> why PyTorch
has none. Every op of Duet stands in one of them (tests/tool/compare_pytorch.sh). PAIRS: ops whose backward pass is also timed
together with them, as autograd runs both. Importing this does not import torch."""
import importlib

FORMS, ABSENT, PAIRS = {}, {}, {}


def op(*names, backward=None):
    """Enters the decorated function as the forms of ops. It gets the Work; one for several ops gets the name as well.
    backward: the op that is its backward pass; the function then calls Work.pair."""
    def enter(function):
        for name in names:
            FORMS[name] = function if len(names) == 1 else lambda work, name=name: function(work, name)
            if backward:
                PAIRS[name] = backward.format(name)
        return function
    return enter


for family in ("memory", "elementwise", "reduction", "gemm", "conv", "pool", "norm", "loss", "embedding", "recurrent", "attention",
               "optimiser", "steps", "study"):
    importlib.import_module("pytorch.forms." + family)
