# SPDX-License-Identifier: Apache-2.0
"""Training steps: gradients set to None, forward, loss, backward, optimiser. With Duet's learning rate for timing, parameters
hardly change. Inferences: the forward pass in evaluation mode, without gradients."""
from pytorch.forms import FORMS
from pytorch.lazy import torch
from pytorch.work import Form, NoForm

STEPS = ("bilstm", "cifar_cnn", "gpt2", "image_cnn", "lenet", "llama", "lstm_scorer", "mlp", "mnist_cnn", "recommender", "resnet50",
         "toy", "transformer", "transformer_small")


def model_of(name, w):
    """(the model, its inputs and label, whether the precision is mixed)"""
    from pytorch.models import MODELS
    attributes = dict(w.params)
    w.read |= set(w.params)  # the model refuses what it does not know
    mixed = attributes.pop("mixed", False)  # parameters in f32, products in t
    wide = torch.float32 if mixed else w.t
    model, inputs = MODELS[name](**attributes).to(wide), []
    for _, whole, shape, (kind, low, high) in model.inputs():
        drawn = torch.randint(0, low, shape) if kind == "below" else torch.empty(shape).uniform_(low, high)
        inputs.append(drawn if whole else drawn.to(wide))
    return model, inputs, mixed


def training_step(name):
    def fill(w):
        model, inputs, mixed = model_of(name, w)
        optimiser = model.optimiser(1e-8 if model.adam else 1e-6, fused=True)

        def stepper(forward=None, inputs=inputs):
            def step():
                with torch.autocast("cpu", w.t, enabled=mixed):
                    model.step(optimiser, inputs, forward)
            return step

        def channels_last():
            model.to(memory_format=torch.channels_last)
            return stepper(inputs=[inputs[0].contiguous(memory_format=torch.channels_last)] + inputs[1:])
        w.form("eager", stepper(), "", gradients=True)
        w.late.append(Form("compile", lambda: stepper(torch.compile(model)), "", True))
        if model.images:  # last: it changes the model
            w.late.append(Form("eager channels_last", channels_last, "", True))
    return fill


def inference(name):
    def fill(w):
        if w.params.get("int8"):
            raise NoForm("no form quantises a network's products")
        model, (*inputs, _), mixed = model_of(name, w)
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
        w.form("eager", server(), "")
        w.late.append(Form("compile", lambda: server(torch.compile(model)), "", False))
        if model.images:  # last: it changes the model
            w.late.append(Form("eager channels_last", channels_last, "", False))
    return fill


FORMS |= {"step/" + name: training_step(name) for name in STEPS}
FORMS |= {"infer/" + name: inference(name) for name in STEPS if name != "recommender"}  # it has no answer to serve
