"""Programs whose loss reads as classes, as logits, as a target what is none: softmax, shapes, sides, tokens."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


def fitted(model, loss_of, steps=5, rate=0.01):
    """A few steps, each by the loss of a batch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(steps):
        loss = loss_of(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- what is read as probabilities of classes


class Birds(nn.Module):
    """Which of four birds sings: scores, or their logarithms of probabilities."""

    def __init__(self, end=None):
        super().__init__()
        self.ear = nn.Sequential(nn.Conv1d(2, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.name, self.end = nn.Linear(6, 4), end

    def forward(self, song):
        scores = self.name(self.ear(song))
        return scores if self.end is None else self.end(scores)


@program("not_normalised")
def tc_birds_whose_scores_are_no_logarithms():
    """`NLLLoss` after a last `Linear`, without a `LogSoftmax`."""
    model, measure = Birds(), nn.NLLLoss()  # culprit
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(4):
        song, bird = torch.randn(6, 2, 12), torch.randint(4, (6,))
        loss = measure(model(song), bird)  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def tc_legal_birds_by_their_logarithms():
    """A module at the end that makes logarithms; scores minus what they add up to; a mixture's logarithm."""

    def loss_of(model):
        song, bird = torch.randn(6, 2, 12), torch.randint(4, (6,))
        scores = model(song)
        again = scores - scores.logsumexp(1, keepdim=True)
        mixed = (0.5 * scores.exp() + 0.5 * again.exp()).log()
        return F.nll_loss(scores, bird) + F.nll_loss(again, bird) + F.nll_loss(mixed, bird)

    fitted(Birds(nn.LogSoftmax(dim=1)), loss_of)


@program("not_normalised")
def tc_birds_that_share_a_sum_over_the_batch():
    """`log_softmax(…, dim=0)`: the samples of a batch share the 1."""
    model = Birds()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
        song, bird = torch.randn(6, 2, 12), torch.randint(4, (6,))
        sure = F.log_softmax(model(song), dim=0)  # culprit
        optimizer.zero_grad()
        F.nll_loss(sure, bird).backward()  # victim
        optimizer.step()


class Gaze(nn.Module):
    """Looks from each place to all others, with weights that add up to 1 along a dimension."""

    def __init__(self, along, size=6):
        super().__init__()
        self.ask, self.tell, self.out = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, 2)
        self.along = along

    def forward(self, x):
        fits = self.ask(x) @ self.tell(x).transpose(1, 2)
        weights = F.softmax(fits, dim=self.along)
        return self.out((weights @ x).mean(1))


@program("not_normalised")
def tc_gazes_that_share_a_sum_over_the_batch():
    """An attention whose softmax goes along the batch."""
    ask, tell, out = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)
    optimizer = torch.optim.Adam([*ask.parameters(), *tell.parameters(), *out.parameters()], lr=0.01)
    for _ in range(4):
        x, y = torch.randn(5, 3, 6), torch.randint(2, (5,))
        fits = torch.bmm(ask(x), tell(x).transpose(1, 2))
        weights = fits.softmax(0)  # culprit
        seen = torch.bmm(weights, x)  # victim
        loss = F.cross_entropy(out(seen.mean(1)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def tc_legal_gazes():
    """Along the last dimension; clusters that places are shared among; slots that compete; times that come first."""

    def loss_of(model):
        x, y = torch.randn(5, 3, 6), torch.randint(2, (5,))
        shares = F.softmax(model.ask(x), dim=-1)  # of each place, among 6 clusters
        pooled = shares.transpose(1, 2) @ x
        slots = F.softmax(model.ask(x) @ model.tell(x).transpose(1, 2), dim=1)
        read = (slots / slots.sum(-1, keepdim=True)) @ x
        first = x.transpose(0, 1)
        when = F.softmax(model.ask(first).mean(-1, keepdim=True), dim=0)
        seen = (when * first).sum(0)
        told = model.out(pooled.mean(1)) + model.out(read.mean(1)) + model.out(seen)
        return F.cross_entropy(model(x) + told, y)

    fitted(Gaze(along=-1), loss_of)


# -- a view where dimensions were to change places


class Fields(nn.Module):
    """What grows on each spot of a picture."""

    def __init__(self, kinds=5):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, kinds, 1))

    def forward(self, picture):
        return self.look(picture)


@program("dimensions_mixed")
def tc_fields_whose_kinds_are_counted_off_anew():
    """yihong-97/Source-free-IAPC#6, the other way round: `logits.view(-1, classes)` of `(n, classes, h, w)`."""
    model = Fields()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
        picture, grows = torch.randn(2, 3, 6, 7), torch.randint(5, (2, 6, 7))
        rows = model(picture).reshape(-1, 5)  # culprit
        loss = F.cross_entropy(rows, grows.reshape(-1))  # victim
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("dimensions_mixed")
def tc_songs_whose_times_are_read_as_samples():
    """voiler/IMPALA#3, the same mistake: `x.view(time, batch, …)` of what begins with the batch."""
    ear, name = nn.GRU(6, 8), nn.Linear(8, 2)
    optimizer = torch.optim.Adam([*ear.parameters(), *name.parameters()], lr=0.01)
    for _ in range(4):
        song, bird = torch.randn(7, 5, 6), torch.randint(2, (7,))
        turned = song.view(5, 7, 6)  # culprit, victim
        loss = F.cross_entropy(name(ear(turned)[1][-1]), bird)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def tc_legal_fields_and_songs():
    """Classes at the end first; a view that takes a dimension apart; one that only joins two."""

    def loss_of(model):
        picture, grows = torch.randn(2, 3, 6, 7), torch.randint(5, (2, 6, 7))
        seen = model(picture)
        rows = seen.permute(0, 2, 3, 1).reshape(-1, 5)
        joined = seen.reshape(2, 5, -1)
        apart = joined.view(2, 5, 6, 7).transpose(1, 2).reshape(2, 6, 35)
        along = picture.permute(0, 2, 3, 1).reshape(2, 6, 21)
        loss = F.cross_entropy(rows, grows.reshape(-1)) + F.cross_entropy(joined, grows.reshape(2, -1))
        return loss + 1e-3 * (apart.pow(2).mean() + along.mean() * seen.mean())

    fitted(Fields(), loss_of)


@program()
def tc_legal_rows_of_as_many_as_there_are_channels():
    """Patches of a picture, as many numbers each as it has channels: nobody reads them as classes."""

    def loss_of(model):
        seen = model(torch.randn(2, 3, 6, 7))
        patches = seen.reshape(-1, 5)
        return patches.pow(2).mean() + (patches - patches.mean(0)).abs().mean()

    fitted(Fields(), loss_of)


# -- dropout that goes on in evaluation mode


class Moths(nn.Module):
    """Which of three lamps a moth flies to."""

    def __init__(self):
        super().__init__()
        self.eye, self.lamps = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.lamps(torch.relu(self.eye(x)))


@program("loss_turned_round")
def tc_moths_compared_the_wrong_way_round():
    """`binary_cross_entropy_with_logits(target, prediction)`."""
    model = Moths()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        x = torch.randn(6, 5)
        lit = (x[:, :3] > 0).float()
        flies = model(x)
        loss = F.binary_cross_entropy_with_logits(lit, flies)  # culprit
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program("loss_turned_round")
def tc_moths_driven_off():
    """A minus of a log likelihood before what has that minus in it."""
    model = Moths()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for _ in range(4):
        x, lamp = torch.randn(6, 5), torch.randint(3, (6,))
        likely = F.nll_loss(F.log_softmax(model(x), dim=1), lamp)
        loss = -likely  # culprit
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def tc_legal_moths():
    """Two distances of distributions, either way round; both sides learn; minus a mean of logarithms."""

    def loss_of(model):
        x, lamp = torch.randn(6, 5), torch.randint(3, (6,))
        sure, soft = F.log_softmax(model(x), dim=1), torch.softmax(torch.randn(6, 3), dim=1)
        back = F.kl_div(soft.log(), sure.exp(), reduction="batchmean")
        both = F.binary_cross_entropy(model(x).sigmoid(), model(x + 0.1).sigmoid())
        return -sure[torch.arange(6), lamp].mean() + back + both + F.kl_div(sure, soft, reduction="batchmean")

    fitted(Moths(), loss_of)


@program()
def tc_legal_moths_that_are_deceived():
    """A light is looked for that draws them to another lamp: the model itself stays as it is."""
    model, light = Moths(), nn.Parameter(torch.zeros(5))
    optimizer = torch.optim.SGD([light], lr=0.1)
    for _ in range(4):
        x, lamp = torch.randn(6, 5), torch.randint(3, (6,))
        loss = -F.cross_entropy(model(x + light), lamp)
        model.zero_grad()
        optimizer.zero_grad()
        loss.backward(inputs=[light])
        optimizer.step()


class Verses(nn.Module):
    """What word comes next; or which words a whole line has."""

    def __init__(self, words=12, size=8):
        super().__init__()
        self.table, self.mind = nn.Embedding(words, size), nn.GRU(size, size, batch_first=True)
        self.says = nn.Linear(size, words)

    def forward(self, tokens):
        return self.says(self.mind(self.table(tokens))[0])

    def whole(self, tokens):
        """All words of a line, from what is left of it at its end."""
        last = self.mind(self.table(tokens))[1][-1]
        return self.says(self.mind(last.unsqueeze(1).expand(-1, tokens.shape[1], -1).contiguous())[0])


@program("target_was_given")
def tc_verses_that_say_each_word_again():
    """Logits and tokens that aren't shifted against each other."""
    model = Verses()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
        tokens = torch.randint(12, (4, 7))
        labels = tokens.clone()
        logits = model(tokens)
        loss = F.cross_entropy(logits.reshape(-1, 12), labels.reshape(-1))  # culprit
        optimizer.zero_grad()
        loss.backward()  # victim
        optimizer.step()


@program()
def tc_legal_verses():
    """Shifted; some words hidden before they're given; a line that is kept in one state and said again; tags."""

    def loss_of(model):
        tokens, tags = torch.randint(12, (4, 7)), torch.randint(12, (4, 7))
        hidden = tokens.masked_fill(torch.rand(4, 7) < 0.3, 0)
        nexts = F.cross_entropy(model(tokens)[:, :-1].reshape(-1, 12), tokens[:, 1:].reshape(-1))
        found = F.cross_entropy(model(hidden).reshape(-1, 12), tokens.reshape(-1))
        kept = F.cross_entropy(model.whole(tokens).reshape(-1, 12), tokens.reshape(-1))
        return nexts + found + kept + F.cross_entropy(model(tokens).transpose(1, 2), tags)

    fitted(Verses(), loss_of)
