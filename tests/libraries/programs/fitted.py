"""Training scripts as people write them: a library holds the loop."""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from tests.libraries.programs.families import SMALL, words
from tests.libraries.table import Built, program


def trainer(model: nn.Module, **options: Any) -> Built:
    from transformers import Trainer, TrainingArguments

    data = [{"input_ids": row, "labels": row} for row in words(8)]
    folder = tempfile.TemporaryDirectory()
    arguments = TrainingArguments(
        folder.name,
        **{"per_device_train_batch_size": 2, "max_steps": 2, "report_to": [], "disable_tqdm": True, "use_cpu": True},
        **{"logging_steps": 1, "save_strategy": "no", **options},
    )
    loop = Trainer(model=model, args=arguments, train_dataset=data)

    def run() -> Any:
        with folder:
            done = loop.train()
        return done.training_loss, [(each.get("loss"), each.get("grad_norm")) for each in loop.state.log_history]

    return model, run


def little_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**SMALL))


@program("transformers", "accelerate")
def trainer_accumulating() -> Built:
    return trainer(little_llama(), gradient_accumulation_steps=2, max_grad_norm=0.5, warmup_steps=1)


@program("transformers", "accelerate")
def trainer_mixed_checkpointed() -> Built:
    return trainer(little_llama(), bf16=True, gradient_checkpointing=True, label_smoothing_factor=0.1)


@program("transformers", "accelerate")
def trainer_saving() -> Built:
    """Checkpoints written, predictions made between the steps."""
    model = little_llama()
    data = [{"input_ids": row, "labels": row} for row in words(4)]
    built, run = trainer(model, save_strategy="steps", save_steps=1, optim="adafactor")
    del data
    return built, run


@program("transformers", "accelerate", "peft")
def trainer_lora() -> Built:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(little_llama(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    model.enable_input_require_grads()
    return trainer(model, gradient_checkpointing=True, gradient_accumulation_steps=2)


@program("accelerate")
def accelerated() -> Built:
    from accelerate import Accelerator

    loop = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 3))
    data = DataLoader(TensorDataset(torch.randn(16, 6), torch.randint(0, 3, (16,))), batch_size=4, shuffle=True)
    prepared: Any = loop.prepare(model, torch.optim.AdamW(model.parameters()), data)
    wrapped, optimizer, batches = prepared

    def run() -> list[torch.Tensor]:
        losses = []
        for inputs, labels in batches:
            with loop.accumulate(wrapped):
                loss = functional.cross_entropy(wrapped(inputs), labels)
                loop.backward(loss)
                if loop.sync_gradients:
                    loop.clip_grad_norm_(wrapped.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.detach())
        return losses

    return model, run


def fit(module: Any, **options: Any) -> Any:
    """What Lightning does with a module, and what it logged."""
    from lightning.pytorch import Trainer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on loggers and workers that are not there
        quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
        loop = Trainer(**{"accelerator": "cpu", "max_epochs": 1, "enable_progress_bar": False, **quiet, **options})
        loop.fit(module, DataLoader(TensorDataset(torch.randn(12, 6), torch.randint(0, 3, (12,))), batch_size=4))
    return dict(loop.logged_metrics)


@program("lightning")
def lightning_fit() -> Built:
    from lightning.pytorch import LightningModule

    class Classifier(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))

        def training_step(self, batch: Any, _number: int) -> torch.Tensor:
            loss = functional.cross_entropy(self.layers(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    model = Classifier()
    return model, lambda: fit(model, accumulate_grad_batches=2, gradient_clip_val=0.5, max_epochs=2)


@program("lightning")
def lightning_two_optimizers() -> Built:
    """A forger and a judge, each with an optimizer, stepped by hand."""
    from lightning.pytorch import LightningModule

    class Forgers(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.forger = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 6))
            self.judge = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 1))

        def loss(self, told: torch.Tensor, true: float) -> torch.Tensor:
            return functional.binary_cross_entropy_with_logits(told, torch.full_like(told, true))

        def training_step(self, batch: Any, _number: int) -> None:
            forging, judging = self.optimizers()
            self.toggle_optimizer(forging)
            forged = self.forger(torch.randn(len(batch[0]), 2, device=self.device))
            loss = self.loss(self.judge(forged), 1.0)
            forging.zero_grad()
            self.manual_backward(loss)
            forging.step()
            self.untoggle_optimizer(forging)
            self.toggle_optimizer(judging)
            doubt = self.loss(self.judge(batch[0]), 1.0) + self.loss(self.judge(forged.detach()), 0.0)
            judging.zero_grad()
            self.manual_backward(doubt)
            judging.step()
            self.untoggle_optimizer(judging)
            self.log_dict({"forging": loss, "judging": doubt})

        def configure_optimizers(self) -> Any:
            return [torch.optim.Adam(each.parameters(), 1e-2) for each in (self.forger, self.judge)]

    model = Forgers()
    return model, lambda: fit(model)
