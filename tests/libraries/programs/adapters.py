"""peft and opacus: libraries that rebuild the model they are given."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from tests.libraries.programs.families import SMALL, words
from tests.libraries.table import Built, program, training


def adapted(config: Any, *, checkpointed: bool = False) -> Built:
    from peft import get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    model: Any = LlamaForCausalLM(LlamaConfig(**SMALL))
    if checkpointed:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
        model.enable_input_require_grads()
    model = get_peft_model(model, config).train()
    ids = words()
    return training(model, lambda: model(input_ids=ids, labels=ids).loss)


@program("peft", "transformers")
def lora() -> Built:
    from peft import LoraConfig

    return adapted(LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))


@program("peft", "transformers")
def lora_checkpointed() -> Built:
    from peft import LoraConfig

    return adapted(LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"), checkpointed=True)


@program("peft", "transformers")
def dora() -> Built:
    from peft import LoraConfig

    return adapted(LoraConfig(r=2, use_dora=True, target_modules=["q_proj"], task_type="CAUSAL_LM"))


@program("peft", "transformers")
def prompted() -> Built:
    from peft import PromptTuningConfig

    return adapted(PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM"))


@program("peft", "transformers")
def rescaled() -> Built:
    from peft import IA3Config

    return adapted(IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]))


def private(model: nn.Module, data: torch.Tensor, mode: str = "hooks") -> Built:
    """Gradients of each example, clipped and noised."""
    from opacus import PrivacyEngine

    loader = DataLoader(TensorDataset(data, torch.randint(0, 3, (len(data),))), batch_size=4)
    made = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=loader,
        **{"noise_multiplier": 1.0, "max_grad_norm": 1.0, "poisson_sampling": False, "grad_sample_mode": mode},
    )
    model, optimizer, loader = made[:3]

    def run() -> list[torch.Tensor]:
        losses = []
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses

    return model, run


@program("opacus")
def private_convolution() -> Built:
    layers = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 3)
    return private(nn.Sequential(*layers), torch.randn(12, 1, 8, 8))


@program("opacus")
def private_by_func() -> Built:
    return private(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)), torch.randn(12, 6), "functorch")


@program("opacus")
def private_recurrent() -> Built:
    from opacus.layers import DPLSTM

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.out = DPLSTM(4, 8, batch_first=True), nn.Linear(8, 3)

        def forward(self, sequence: torch.Tensor) -> torch.Tensor:
            return self.out(self.cells(sequence)[0][:, -1])

    return private(Last(), torch.randn(8, 5, 4))
