# SPDX-License-Identifier: Apache-2.0
"""PyTorch, imported when a name of it is first used: which ops have a form is known without it."""
import importlib


class Lazy:
    def __init__(self, module, *members):
        self._module, self._members = module, members

    def __getattr__(self, name):
        found = importlib.import_module(self._module)
        for member in self._members:
            found = getattr(found, member)
        self.__dict__[name] = value = getattr(found, name)  # a later use is a plain attribute: calls are timed
        return value


torch = Lazy("torch")
F = Lazy("torch.nn.functional")
aten = Lazy("torch", "ops", "aten")
functorch_config = Lazy("torch._functorch.config")
