"""Dimensions, places and signs that are taken for each other, of reports and of what beginners ask most often."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


def trained(net, loss_of, *, rate=1e-2, laps=4, optimizer=torch.optim.Adam):
    """Some laps of a training."""
    steps = optimizer(net.parameters(), lr=rate)
    for _ in range(laps):
        steps.zero_grad()
        loss_of(net).backward()
        steps.step()


# -- the tokens that a model is given, for targets, with the classes brought into dimension 1


class Tunes(nn.Module):
    """Says of each note which comes next, looking back alone."""

    def __init__(self, notes=9, size=16):
        super().__init__()
        self.table, self.place = nn.Embedding(notes, size), nn.Parameter(torch.randn(7, size) * 0.1)
        self.layer = nn.TransformerEncoderLayer(size, 2, 24, dropout=0.0, batch_first=True)
        self.says = nn.Linear(size, notes)

    def forward(self, notes):
        many = notes.shape[1]
        back = torch.triu(torch.full((many, many), float("-inf")), diagonal=1)
        return self.says(self.layer(self.table(notes) + self.place[:many], src_mask=back))


@program("target_was_given")
def mu_tunes_that_say_each_note_again():
    """Scores with their classes in dimension 1, and targets that nobody has shifted."""
    tunes = Tunes()
    steps = torch.optim.Adam(tunes.parameters(), lr=1e-2)
    for _ in range(4):
        notes = torch.randint(9, (5, 7))
        scores = tunes(notes).permute(0, 2, 1)
        loss = F.cross_entropy(scores, notes)  # culprit
        steps.zero_grad()
        loss.backward()  # victim
        steps.step()


@program("target_was_given")
def mu_letters_that_a_state_hands_through():
    """A recurrent net that reads letters, each one asked for where it was given."""
    table, mind, says = nn.Embedding(11, 8), nn.LSTM(8, 12, batch_first=True), nn.Linear(12, 11)
    learns = [*table.parameters(), *mind.parameters(), *says.parameters()]
    steps = torch.optim.Adam(learns, lr=1e-2)
    judge = nn.CrossEntropyLoss()
    for _ in range(4):
        letters = torch.randint(11, (4, 6))
        read, _state = mind(table(letters))
        loss = judge(says(read).transpose(1, 2), letters)  # culprit
        steps.zero_grad()
        loss.backward()  # victim
        steps.step()


@program()
def mu_legal_tunes():
    """Shifted; some notes covered before they're given; other marks asked for, as many places as classes."""

    def loss_of(tunes):
        notes, marks = torch.randint(9, (5, 7)), torch.randint(9, (5, 7))
        covered = torch.where(torch.rand(5, 7) < 0.3, torch.zeros_like(notes), notes)
        nexts = F.cross_entropy(tunes(notes).transpose(1, 2)[:, :, :-1], notes[:, 1:])
        found = F.cross_entropy(tunes(covered).transpose(1, 2), notes)
        return nexts + found + F.cross_entropy(tunes(notes).transpose(1, 2), marks)

    trained(Tunes(), loss_of)


@program()
def mu_legal_words_kept_in_one_state():
    """A line of words is read into one state, and said again from that."""
    table, reads, tells = nn.Embedding(11, 8), nn.GRU(8, 6, batch_first=True), nn.GRU(6, 12, batch_first=True)
    net = nn.ModuleList([table, reads, tells, nn.Linear(12, 11)])

    def loss_of(net):
        words = torch.randint(11, (4, 6))
        _, state = reads(table(words))
        told, _ = tells(state[-1].unsqueeze(1).expand(-1, 6, -1).contiguous())
        return F.cross_entropy(net[3](told).transpose(1, 2), words)

    trained(net, loss_of)
