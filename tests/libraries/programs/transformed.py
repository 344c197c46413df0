"""torch's own transformations of programs: torch.func, torch.compile, export, jit."""

from __future__ import annotations

import copy
import os
from typing import Any

import torch
from torch import func, nn
from torch.nn import functional

from tests.libraries.table import Built, program, training


def perceptron() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(8, 6), torch.randint(0, 3, (8,))


@program()
def gradients_of_examples() -> Built:
    model, (inputs, labels) = perceptron(), batch()
    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def loss(given: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(func.functional_call(model, given, (x[None],)), y[None])

    return model, lambda: func.vmap(func.grad(loss), (None, 0, 0))(parameters, inputs, labels)


@program()
def hessian_and_jvp() -> Built:
    model, (inputs, _) = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1)), batch()

    def run() -> Any:
        second = func.hessian(lambda x: model(x).sum())(inputs[0])
        forward = func.jvp(model, (inputs,), (torch.ones_like(inputs),))
        backward = func.vjp(model, inputs)[1](torch.ones(8, 1))
        return second, forward, backward, func.jacrev(model)(inputs[0]), func.jacfwd(model)(inputs[0])

    return model, run


@program()
def ensemble() -> Built:
    """Models stacked and run at once, trained from outside of vmap."""
    models, (inputs, labels) = [perceptron() for _ in range(3)], batch()
    parameters, buffers = func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    told = func.vmap(lambda p, b, x: func.functional_call(base, (p, b), (x,)), (0, 0, None))
    optimizer = torch.optim.SGD(parameters.values(), lr=0.1)

    def run() -> Any:
        for _ in range(3):
            optimizer.zero_grad()
            loss = functional.cross_entropy(told(parameters, buffers, inputs).flatten(0, 1), labels.repeat(3))
            loss.backward()
            optimizer.step()
        return loss.detach(), parameters, [each.grad for each in parameters.values()]

    return nn.ModuleList(models), run


@program()
def learned_to_learn() -> Built:
    """MAML: gradients through an update, by torch.func."""
    model, (inputs, labels) = perceptron(), batch()

    def adapted(given: dict[str, torch.Tensor]) -> torch.Tensor:
        def loss(inner: dict[str, torch.Tensor]) -> torch.Tensor:
            return functional.cross_entropy(func.functional_call(model, inner, (inputs,)), labels)

        slopes = func.grad(loss)(given)
        return loss({name: each - 0.1 * slopes[name] for name, each in given.items()})

    return training(model, lambda: adapted(dict(model.named_parameters())))


def compiled(backend: str, **options: Any) -> Built:
    torch.compiler.reset()
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    model, (inputs, labels) = perceptron(), batch()
    quick: Any = torch.compile(model, backend=backend, **options)
    return training(model, lambda: functional.cross_entropy(quick(inputs), labels))


@program()
def compiled_eager() -> Built:
    return compiled("eager")


@program()
def compiled_aot_eager() -> Built:
    return compiled("aot_eager")


@program("torch", "g++", limit_s=900)
def compiled_inductor() -> Built:
    return compiled("inductor")


@program()
def compiled_with_breaks() -> Built:
    """Python between two compiled pieces; a branch on a value."""
    torch.compiler.reset()
    model, (inputs, labels) = perceptron(), batch()

    @torch.compile(backend="aot_eager")
    def told(x: torch.Tensor) -> torch.Tensor:
        hidden = model(x)
        if hidden.sum() > 0:
            hidden = hidden * 2
        torch._dynamo.graph_break()
        return hidden.clone().mul_(0.5)

    return training(model, lambda: functional.cross_entropy(told(inputs), labels))


@program()
def exported() -> Built:
    model, (inputs, labels) = perceptron(), batch()

    def run() -> Any:
        program = torch.export.export(model, (inputs,), dynamic_shapes=({0: torch.export.Dim.AUTO},))
        loss = functional.cross_entropy(program.module()(inputs), labels)
        loss.backward()
        return loss.detach(), str(program.graph_module.code), str(program.range_constraints)

    return model, run


@program()
def symbolic() -> Built:
    model, (inputs, labels) = perceptron(), batch()
    traced = torch.fx.symbolic_trace(model)
    return training(model, lambda: functional.cross_entropy(traced(inputs), labels))


@program()
def scripted() -> Built:
    """TorchScript, deprecated and alive."""
    import warnings

    model, (inputs, labels) = perceptron(), batch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(model)
    return training(model, lambda: functional.cross_entropy(script(inputs), labels))


@program()
def jit_traced() -> Built:
    """Traced inside the block, then used."""
    import warnings

    model, (inputs, labels) = perceptron(), batch()

    def run() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(model, (inputs,))
        loss = functional.cross_entropy(traced(inputs), labels)
        loss.backward()
        return loss.detach()

    return model, run
