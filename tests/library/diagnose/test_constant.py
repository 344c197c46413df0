"""Terms of a loss that are constant: what they miss, the proposed mends applied, and constants that are meant."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import seegrad
from seegrad.diagnose.evidence import called_on
from seegrad.model.recording import Place, Recording
from tests.data.programs import programs
from tests.library.mended import agree_with_differences, loss_of
from tests.library.recorded import seen

MENDS = {
    "c_penalty_of_numbers": ("p.abs().sum().item()", "p.abs().sum()"),
    "c_distance_returned_as_a_number": ("torch.stack(parts).sum().item()", "torch.stack(parts).sum()"),
    "c_gradient_penalty_without_a_graph": (
        "critic(between).sum(), between)",
        "critic(between).sum(), between, create_graph=True)",
    ),
    "c_dice_of_what_was_thresholded": ("(probability > 0.5).float()", "probability"),
    "c_losses_of_layers_made_into_a_tensor": ("torch.tensor(apart)", "torch.stack(apart)"),
    "c_style_computed_in_numpy": (
        "features.detach().numpy()  # culprit\n        return torch.from_numpy(array.T @ array / len(array))",
        "features\n        return array.T @ array / len(array)",
    ),
    "c_generator_s_own_loss_detached": ("(discriminator(fake.detach()), one)", "(discriminator(fake), one)"),
    "c_latent_that_was_only_sampled": ("posterior.sample()", "posterior.rsample()"),
    "c_noise_with_a_spread_of_its_own": ("torch.normal(mean, std)", "mean + std * torch.randn_like(mean)"),
    "c_gates_drawn_by_chance": (
        "head(body(x) * drawn)",
        "head(body(x) * (drawn + p - p.detach()))",
    ),
    "b_generator_reuses_the_discriminator_s_view": ("score = net_d(fake.detach())", "score = net_d(fake)"),
    "b_generator_s_step_sees_no_generator": ("d_fake = self.d(fake.detach())", "d_fake = self.d(fake)"),
    "b_discriminator_s_output_detached": ("net_d(fake).detach()", "net_d(fake)"),
    "b_features_matched_on_a_detached_fake": (
        "_, fake_features = net_d(fake.detach())",
        "_, fake_features = net_d(fake)",
    ),
    "c_rotation_made_of_numbers": (
        "torch.tensor([[c, -s], [s, c]])",
        "torch.stack([torch.stack([c, -s]), torch.stack([s, c])])",
    ),
}
"""Program → what its line says, and what the advice makes of it."""

CHOSEN = "c_gates_drawn_by_chance"
"""What passes the gradient straight through is an estimate."""

STEPPED = {"c_dice_of_what_was_thresholded", CHOSEN}
"""Their terms are constant in truth: each of their numbers is a step."""


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("name", [name for name in MENDS if name != CHOSEN])
def test_the_mend_gives_the_gradient_of_central_differences(name: str) -> None:
    agree_with_differences(loss_of(name, *MENDS[name]))


@pytest.mark.usefixtures("doubles")
@pytest.mark.parametrize("name", [name for name in MENDS if name not in STEPPED])
def test_without_the_mend_the_gradient_is_not_the_loss_s(name: str) -> None:
    """Oracle: central differences, which know nothing of histories."""
    with pytest.raises(AssertionError):
        agree_with_differences(loss_of(name))


@pytest.mark.parametrize("name", MENDS)
def test_the_mended_program_gets_no_such_note(name: str) -> None:
    compute = loss_of(name, *MENDS[name])
    with seegrad.record() as rec:
        compute().backward()
    assert "constant_term" not in [each.kind for each in rec.diagnoses]


@pytest.mark.parametrize("name", [name for name in programs() if name.startswith("kc_")])
def test_constants_that_are_meant_get_nothing(name: str) -> None:
    assert not seen(name).recording.diagnoses


def test_every_broken_program_has_its_mend() -> None:
    elsewhere = (".people", ".reported_")  # in reported_mends.toml
    own = [each for each in programs().values() if not any(part in each.run.__module__ for part in elsewhere)]
    assert set(MENDS) == {each.name for each in own if each.kind == "constant_term"}


@pytest.mark.filterwarnings("ignore:Converting a tensor")  # torch says it once in a process, of whichever comes first
def test_the_leaves_that_learn_nothing_are_those_that_the_term_was_computed_of() -> None:
    w, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    with seegrad.record() as rec:
        size = torch.tensor([w.pow(2).sum(), w.abs().sum()]).mean()
        loss = (w * b).sum() + size
        loss.backward()
    (found,) = rec.diagnoses
    assert (found.kind, found.tensor, dict(found.arguments)["cause"]) == ("constant_term", "w", "rebuilt")


@pytest.mark.slow
def test_a_loss_is_compared_with_its_own_step_though_older_laps_are_forgotten() -> None:
    """A discriminator that sees detached fakes: its step is forgotten before the generator's."""
    generator = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    discriminator = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.LeakyReLU(0.2), torch.nn.Linear(32, 1))
    stepping = [torch.optim.Adam(each.parameters(), lr=1e-3) for each in (generator, discriminator)]
    score, ones = torch.nn.BCEWithLogitsLoss(), torch.ones(16, 1)
    with seegrad.record() as rec:
        for _ in range(40):
            fake, real = generator(torch.randn(16, 4)), torch.randn(16, 8)
            loss = score(discriminator(real), ones) + score(discriminator(fake.detach()), torch.zeros(16, 1))
            stepping[1].zero_grad()
            loss.backward()
            stepping[1].step()
            second = score(discriminator(fake), ones)
            stepping[0].zero_grad()
            second.backward()
            stepping[0].step()
    assert not rec.diagnoses


def test_of_a_function_that_is_given_what_was_detached_the_line_that_gives_it_is_told() -> None:
    """By whatever name the function is called there."""
    lines = [
        "def distance(one, other):",
        "    return (one - other).square().mean()",
        "self.of_fake, _ = judge(fake.detach())",
        "adversarial = last(judge(fake))",
        "latent = self.latent(self.of_fake, of_real)",
        "(adversarial + latent).backward()",
    ]
    recording = Recording(code=tuple(enumerate(lines, 1)), code_file="train.py")
    inside, since, gives, until = (Place("train.py", line, lines[line - 1].strip()) for line in (2, 3, 5, 6))
    assert called_on(recording, inside, since, until) == gives
    twice = replace(recording, code=(*recording.code[:3], (4, "log(self.of_fake)"), *recording.code[4:]))
    assert called_on(twice, inside, since, until) == inside
