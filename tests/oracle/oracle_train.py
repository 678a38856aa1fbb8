# SPDX-License-Identifier: Apache-2.0
"""Trains the reference model according to a recipe, with PyTorch's own optimizer and clipping."""
import fnmatch
import math

import numpy
import torch
from torch.nn import functional

from muon import MuonAndAdamW, is_matrix
from reference_model import CurrentScaling, DelayedScaling, ReferenceModel


def learning_rate(recipe, step):
    """Learning rate of `step`, counted from 0."""
    training = recipe["training"]
    options = {"schedule": "cosine", "peak": 3e-4, "minimum": 0.0, "warmup_steps": 0, "decay_steps": training["steps"],
               **training.get("learning_rate", {})}
    peak, minimum, warmup = options["peak"], options["minimum"], options["warmup_steps"]
    if step < warmup:
        return min(peak, peak * (step + 1) / warmup)
    end = options["decay_steps"]
    start = max(warmup, end - end // 5) if options["schedule"] == "wsd" else warmup
    done = min(1.0, max(0, step - start) / max(1, end - start))
    factor = {"constant": 1.0, "cosine": (1 + math.cos(math.pi * done)) / 2}.get(options["schedule"], 1 - done)
    return minimum + (peak - minimum) * factor


def make_optimizer(model, recipe):
    """AdamW that decays weight matrices and embeddings, not biases, norms or learned positions; or Muon beside it."""
    options = {"name": "adamw", "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1,
               **recipe["training"].get("optimizer", {})}
    decayed, others, matrices = [], [], []
    for name, parameter in model.named_parameters():
        if options["name"] == "muon" and is_matrix(name, parameter):
            matrices += [parameter] if parameter.requires_grad else []
            continue
        decays = parameter.dim() >= 2 and name != "embedding.position.weight" and not name.endswith("bias")
        (decayed if decays else others).append(parameter)
    groups = [{"params": decayed, "weight_decay": options["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, betas=(options["beta1"], options["beta2"]), eps=options["eps"])
    if options["name"] == "adamw":
        return adamw
    muon = {"momentum": 0.95, "nesterov": True, "steps": 5, "scale": "match_rms_adamw", **options.get("muon", {})}
    return MuonAndAdamW(matrices, adamw, options, muon)


def freeze(model, patterns):
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def in_order(step, global_batch, samples):
    """Samples step·G … step·G + G - 1 of the unshuffled, endlessly repeated order."""
    return [(step * global_batch + index) % samples for index in range(global_batch)]


def batch(tokens, numbers, length):
    """Inputs and targets of the samples with these numbers."""
    rows = torch.stack([tokens[number * length : (number + 1) * length + 1] for number in numbers])
    return rows[:, :-1], rows[:, 1:]


def read_tokens(path):
    return torch.from_numpy(numpy.fromfile(path, dtype="<u2").astype(numpy.int64))


def mean_loss(model, inputs, targets):
    return functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def power_of_two(ratio):
    """The largest that is at most `ratio`."""
    return 2.0 ** math.floor(math.log2(ratio))


def scale_below(top, tensor, most=100):
    """With which the largest magnitude is between half of and the whole 2 to the `top`; at most 2 to the `most`."""
    return min(2.0 ** most, 2.0 ** (top - 1) / power_of_two(tensor.abs().max().item()))


def as_fp16(tensor, scale):
    return (tensor * scale).half().float() / scale


def as_e4m3(tensor):
    scale = power_of_two(448 / tensor.abs().max().item())
    return (tensor * scale).to(torch.float8_e4m3fn).float() / scale


class Fp8States:
    """What FP8 levels store of the layers' matrices, scaled by powers of two: E4M3 gradients and fp16 weights, from O2
    on AdamW's first moment in E4M3 and its second one in fp16, at O3 a copy of the weights in E4M3 for the products."""

    def __init__(self, model, level, first_layers):
        self.matrices = [parameter for name, parameter in model.named_parameters()
                         if name.startswith("layers.") and parameter.dim() == 2
                         and int(name.split(".")[1]) >= first_layers]
        self.level = level
        self.choose_scales()
        self.store_weights()
        self.show_weights()

    def choose_scales(self):
        self.scales = [scale_below(12, matrix, most=14) for matrix in self.matrices]

    def store_weights(self):
        for matrix, scale in zip(self.matrices, self.scales):
            matrix.data = self.as_master(matrix.data, scale)

    def show_weights(self):
        """To the products; hide_weights() gives the most precise ones back."""
        self.stored = [matrix.data for matrix in self.matrices]
        if self.level == "O3":
            for matrix in self.matrices:
                matrix.data = as_e4m3(matrix.data)

    def hide_weights(self):
        for matrix, stored in zip(self.matrices, self.stored):
            matrix.data = stored

    def cast_gradients(self):
        for matrix in self.matrices:
            # 432 is where numbers are rounded to 448.
            scale = power_of_two(432 / 1.0001 / matrix.grad.abs().max().item())
            matrix.grad = (matrix.grad * scale).to(torch.float8_e4m3fn).float() / scale

    def step(self, optimizer):
        self.hide_weights()
        if self.level == "O1":
            # O1 knows the weights before the step.
            self.choose_scales()
        optimizer.step()
        if self.level != "O1":
            self.choose_scales()
            for matrix in self.matrices:
                self.store_moments(optimizer.state[matrix])
        self.store_weights()
        self.show_weights()

    def store_moments(self, state):
        state["exp_avg"].copy_(as_e4m3(state["exp_avg"]))
        state["exp_avg_sq"].copy_(self.as_second_moment(state["exp_avg_sq"]))

    @staticmethod
    def as_master(weights, scale):
        return as_fp16(weights, scale)

    @staticmethod
    def as_second_moment(second):
        scale = scale_below(15, second)
        # Never rounded to 0, by which the first moment would be divided.
        least = second.gt(0) * 2.0 ** -24 / scale
        return torch.maximum(as_fp16(second, scale), least)


def make_scaling(precision):
    options = dict(precision.get("fp8_scaling", {}))
    return DelayedScaling(**options) if options.pop("method", "current") == "delayed" else CurrentScaling()


class LossScaler:
    """torch.amp.GradScaler with the recipe's loss scale, which is told in which steps a gradient overflows."""

    def __init__(self, precision, overflows):
        options = {"initial": 65536, "growth_steps": 2000, **precision.get("loss_scale", {})}
        self.scaler = torch.amp.GradScaler("cpu", init_scale=float(options["initial"]),
                                           growth_interval=options["growth_steps"], enabled=overflows is not None)
        self.overflows = overflows or ()

    def scale(self):
        return self.scaler.get_scale()

    def backward(self, loss, step, optimizer):
        self.scaler.scale(loss).backward()
        if step in self.overflows:
            optimizer.param_groups[0]["params"][0].grad.view(-1)[0] = math.inf
        self.scaler.unscale_(optimizer)

    def step(self, optimizer):
        self.scaler.step(optimizer)
        self.scaler.update()


def train(recipe, weights, tokens, dtype=torch.float32, overflows=None, course=None, fp8_states=Fp8States):
    """One row {step, loss, grad_norm, learning_rate, loss_scale} per step, and the trained model. `overflows`: with a
    loss scale, the steps in which a gradient overflows. `course` changes what steps train on, `fp8_states` how FP8
    levels store what they store."""
    precision = recipe.get("precision", {})
    fp8, first_layers = precision.get("fp8_level", "off"), precision.get("high_precision", {}).get("first_layers", 0)
    scaling = make_scaling(precision)
    model = ReferenceModel(recipe["model"], fp8, first_layers, scaling).to(dtype)
    model.load_state_dict(weights)
    freeze(model, recipe["training"].get("freeze", []))
    states = fp8_states(model, fp8, first_layers) if fp8 not in ("off", "O0") else None
    optimizer = make_optimizer(model, recipe)
    scaler = LossScaler(precision, overflows)
    clip_norm = recipe["training"].get("clip_norm", 1.0)
    length = recipe["batch"].get("sequence_length", recipe["model"]["max_sequence_length"])
    draw = course.sample_order(tokens) if course else in_order
    samples = (len(tokens) - 1) // length
    rows = []
    for step in range(recipe["training"]["steps"]):
        rate = learning_rate(recipe, course.position(step) if course else step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        model.config.step = step
        scale = scaler.scale()
        inputs, targets = batch(tokens, draw(step, recipe["batch"]["global"], samples), length)
        if course:
            inputs, targets = course.prepare(model, step, inputs, targets)
        loss = mean_loss(model, inputs, targets)
        scaler.backward(loss + model.router_loss(), step, optimizer)
        if states:
            states.cast_gradients()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm if clip_norm > 0 else math.inf)
        if states:
            states.step(optimizer)
        else:
            scaler.step(optimizer)
        scaling.end_step()
        rows.append({"step": step, "loss": loss.item(), "grad_norm": norm.item(),
                     "learning_rate": rate, "loss_scale": scale})
    if states:
        states.hide_weights()
    return rows, model
