"""The callbacks for Lightning and Hugging Face's Trainer: a wrong gradient is told with its line, nothing changes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import seegrad
from tests.libraries.torchvision_loads import make_torchvision_load

BATCHES = 8
QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
Spoil = Callable[[torch.Tensor], object]


@pytest.fixture(scope="module", autouse=True)
def torchvision_is_there() -> None:
    """What both libraries import where they find it."""
    make_torchvision_load()


class Net(torch.nn.Module):
    """A small model; `spoil` is called with a result that backward needs, from the call `since` on."""

    def __init__(self, spoil: Spoil | None, since: int = 0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
        self.spoil, self.calls_left = spoil, since

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        h = self.a(x).sigmoid()
        if self.spoil is not None and self.calls_left == 0:
            self.spoil(h)
        self.calls_left = max(0, self.calls_left - 1)
        return {"loss": (self.b(h) - labels).pow(2).mean()}


def raises(h: torch.Tensor) -> object:
    return h.mul_(2)


def corrupts(h: torch.Tensor) -> object:
    return h.data.mul_(2)


def data() -> list[dict[str, torch.Tensor]]:
    torch.manual_seed(1)
    return [{"x": torch.randn(4), "labels": torch.randn(1)} for _ in range(4 * BATCHES)]


def with_lightning(model: Net, folder: Path, every: int | None) -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[name-defined,misc]  # it's imported where it's there
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Any) -> Any:
            loss = self.model(**batch)["loss"]
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    callbacks = [seegrad.lightning_callback(every)] if every else []
    loader = torch.utils.data.DataLoader(data(), batch_size=4)
    options = {**QUIET, "callbacks": callbacks, "default_root_dir": folder, "accelerator": "cpu", "max_epochs": 1}
    lightning.Trainer(**options).fit(Module(), loader)


def with_transformers(model: Net, folder: Path, every: int | None) -> None:
    transformers = pytest.importorskip("transformers")
    how = {"per_device_train_batch_size": 4, "num_train_epochs": 1, "gradient_accumulation_steps": 2, "use_cpu": True}
    quiet = {"report_to": [], "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
    args = transformers.TrainingArguments(output_dir=str(folder), **how, **quiet)
    callbacks = [seegrad.trainer_callback(every)] if every else []
    transformers.Trainer(model, args, train_dataset=data(), callbacks=callbacks).train()


Train = Callable[[Net, Path, int | None], None]
FRAMEWORKS = pytest.mark.parametrize("train", [with_lightning, with_transformers])


@pytest.fixture(autouse=True)
def what_the_frameworks_warn_of() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few workers, no logger: theirs, and not what is asked here
        yield


@FRAMEWORKS
@pytest.mark.parametrize("every", [1, 3])
def test_a_right_training_ends_at_the_same_bits_and_nothing_is_said(
    train: Train, every: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    alone, watched = Net(None), Net(None)
    train(alone, tmp_path, None)
    train(watched, tmp_path, every)
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), watched.parameters(), strict=True))
    assert "seegrad" not in "".join(capfd.readouterr())
    assert not [*tmp_path.glob("*.html")]


@FRAMEWORKS
@pytest.mark.parametrize("every", [1, 3])
def test_a_gradient_that_is_wrong_without_an_error_is_told_once_with_its_line(
    train: Train, every: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(Net(corrupts), tmp_path, every)
    said = capfd.readouterr().err
    line = corrupts.__code__.co_firstlineno + 1
    assert re.findall(r"(\w+\.py:\d+): WRONG GRADIENT", said) == [f"test_callbacks.py:{line}"]
    assert "h.data.mul_(2)" in (tmp_path / "training.seegrad.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("train", "every", "since"), [(with_lightning, 1, 3), (with_lightning, 5, 3), (with_transformers, 1, 3)]
)
def test_torch_s_error_leaves_the_training_with_its_culprit_in_a_note(
    train: Train, every: int, since: int, tmp_path: Path
) -> None:
    """With Lightning also where the step that fails isn't one of those that are recorded."""
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as told:
        train(Net(raises, since), tmp_path, every)
    assert any("`return h.mul_(2)`" in note for note in told.value.__notes__)


def test_a_second_training_is_watched_after_one_that_failed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        with_transformers(Net(raises), tmp_path / "first", 1)
    with_transformers(Net(corrupts), tmp_path / "second", 1)
    assert "WRONG GRADIENT" in capfd.readouterr().err
    assert [*(tmp_path / "second").glob("*.html")]
