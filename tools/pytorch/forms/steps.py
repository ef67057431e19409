# SPDX-License-Identifier: Apache-2.0
"""Training steps: gradients set to None, forward, loss, backward, optimiser. With Duet's learning rate for timing, parameters
hardly change. Replicas of data-parallel training are in one process: torch.distributed needs a process for each. Inferences:
the forward pass in evaluation mode, without gradients."""
import copy

from pytorch.forms import FORMS
from pytorch.lazy import torch
from pytorch.work import Form, NoForm

STEPS = ("bilstm", "cifar_cnn", "gpt2", "image_cnn", "lenet", "llama", "lstm_scorer", "mlp", "mnist_cnn", "recommender", "resnet50",
         "toy", "transformer", "transformer_small")


def model_of(name, w):
    """(the model, its inputs and label for each replica, whether the precision is mixed)"""
    from pytorch.models import MODELS
    attributes = dict(w.params)
    w.read |= set(w.params)  # the model refuses what it does not know
    mixed, replicas = attributes.pop("mixed", False), attributes.pop("replicas", 1)  # mixed: parameters in f32, products in t
    wide = torch.float32 if mixed else w.t
    model = MODELS[name](**attributes).to(wide)

    def draw():
        for _, whole, shape, (kind, low, high) in model.inputs():
            drawn = torch.randint(0, low, shape) if kind == "below" else torch.empty(shape).uniform_(low, high)
            yield drawn if whole else drawn.to(wide)
    return model, [list(draw()) for _ in range(replicas)], mixed


def averaged_step(models, optimisers, inputs, forwards):
    """A step of each replica, with the mean of their gradients."""
    for model, optimiser, given, forward in zip(models, optimisers, inputs, forwards):
        optimiser.zero_grad(set_to_none=True)
        model.loss(forward(*given[:-1]), given[-1]).backward()
    mean, *others = [[p.grad for p in model.parameters() if p.grad is not None] for model in models]
    for other in others:
        torch._foreach_add_(mean, other)
    torch._foreach_div_(mean, len(models))
    for other in others:
        torch._foreach_copy_(other, mean)
    for optimiser in optimisers:
        optimiser.step()


def training_step(name):
    def fill(w):
        from pytorch.models import Model
        first, inputs, mixed = model_of(name, w)
        if len(inputs) > 1 and type(first).step is not Model.step:
            raise NoForm("a step of its own has no form with replicas")
        models = [first] + [copy.deepcopy(first) for _ in inputs[1:]]
        optimisers = [model.optimiser(1e-8 if model.adam else 1e-6, fused=True) for model in models]

        def stepper(forwards=models, inputs=inputs):
            def step():
                with torch.autocast("cpu", w.t, enabled=mixed):
                    if len(models) == 1:
                        first.step(optimisers[0], inputs[0], forwards[0])
                    else:
                        averaged_step(models, optimisers, inputs, forwards)
            return step

        def channels_last():
            for model in models:
                model.to(memory_format=torch.channels_last)
            return stepper(inputs=[[x.contiguous(memory_format=torch.channels_last), *others] for x, *others in inputs])
        w.form("eager", stepper(), "", gradients=True)
        w.late.append(Form("compile", lambda: stepper([torch.compile(model) for model in models]), "", True))
        if first.images:  # last: it changes the models
            w.late.append(Form("eager channels_last", channels_last, "", True))
    return fill


def inference(name):
    def fill(w):
        if w.params.get("int8"):
            raise NoForm("no form quantises a network's products")
        if name == "recommender" and not w.params.get("top"):
            raise NoForm("without top it answers nothing")
        model, [(*inputs, _)], mixed = model_of(name, w)
        model.eval()
        model.fold()

        def server(forward=model, inputs=inputs):
            def serve():
                with torch.inference_mode(), torch.autocast("cpu", w.t, enabled=mixed):
                    return forward(*inputs)
            return serve

        def channels_last():
            model.to(memory_format=torch.channels_last)
            return server(inputs=[inputs[0].contiguous(memory_format=torch.channels_last)] + inputs[1:])
        w.forms.append(Form("eager", server(), "", False))
        w.late.append(Form("compile", lambda: server(torch.compile(model)), "", False))
        if model.images:  # last: it changes the model
            w.late.append(Form("eager channels_last", channels_last, "", False))
    return fill


FORMS |= {"step/" + name: training_step(name) for name in STEPS}
FORMS |= {"infer/" + name: inference(name) for name in STEPS}
