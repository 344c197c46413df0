"""Dimensions, places and signs that are taken for each other, of reports and of what beginners ask most often."""

from __future__ import annotations

import torch
from torch import nn
from torch.distributions import Normal
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


# -- heads and channels that a view was to bring past the places


class Views(nn.Module):
    """An attention of several heads over the frames of a clip."""

    def __init__(self, join, size=12, heads=3):
        super().__init__()
        self.join, self.heads = join, heads
        self.all, self.out = nn.Linear(size, 3 * size), nn.Linear(size, 2)

    def forward(self, clips):
        many, frames, size = clips.shape
        split = self.all(clips).view(many, frames, 3, self.heads, size // self.heads)
        asked, keys, held = (each.transpose(1, 2) for each in split.unbind(2))
        return self.out(self.join(F.scaled_dot_product_attention(asked, keys, held))).mean(1)


@program("dimensions_mixed")
def mu_heads_of_clips_that_a_reshape_joins():
    """Heads in dimension 1, joined as if they came last."""

    def join(seen):
        many, _heads, frames, _share = seen.shape
        return seen.reshape(many, frames, -1)  # culprit, victim

    views = Views(join)
    steps = torch.optim.Adam(views.parameters(), lr=1e-2)
    for _ in range(3):
        loss = F.cross_entropy(views(torch.randn(4, 7, 12)), torch.randint(2, (4,)))
        steps.zero_grad()
        loss.backward()
        steps.step()


@program("dimensions_mixed")
def mu_readers_stacked_in_front():
    """Each reads all words for itself, and their results are stacked before the batch."""
    readers = nn.ModuleList(nn.Linear(10, 4) for _ in range(3))
    judge = nn.Linear(12, 5)
    steps = torch.optim.SGD([*readers.parameters(), *judge.parameters()], lr=0.1)
    for _ in range(3):
        words = torch.randn(5, 8, 10)
        read = torch.stack([reader(words) for reader in readers])
        together = read.view(5, 8, -1)  # culprit, victim
        loss = F.cross_entropy(judge(together).flatten(0, 1), torch.randint(5, (40,)))
        steps.zero_grad()
        loss.backward()
        steps.step()


@program("dimensions_mixed")
def mu_tiles_whose_colours_come_last():
    """Tiles of a map are looked up in a table, and a convolution reads what a reshape makes of them."""
    table, paints = nn.Embedding(6, 5), nn.Conv2d(5, 6, 3, padding=1)
    steps = torch.optim.Adam([*table.parameters(), *paints.parameters()], lr=1e-2)
    for _ in range(3):
        tiles = torch.randint(6, (4, 8, 8))
        colours = table(tiles)
        planes = colours.reshape(4, 5, 8, 8)  # culprit, victim
        loss = F.cross_entropy(paints(planes), torch.randint(6, (4, 8, 8)))
        steps.zero_grad()
        loss.backward()
        steps.step()


@program()
def mu_legal_heads_of_clips():
    """Turned before they're joined; as many heads as frames, where a view along them says nothing."""

    def join(seen):
        return seen.transpose(1, 2).contiguous().view(len(seen), seen.shape[2], -1)

    def loss_of(views):
        return F.cross_entropy(views(torch.randn(4, 7, 12)), torch.randint(2, (4,)))

    trained(Views(join), loss_of)
    trained(Views(lambda seen: seen.movedim(1, -2).flatten(-2)), loss_of)
    trained(Views(lambda seen: seen.reshape(4, 3, 12)), lambda net: net(torch.randn(4, 3, 12)).square().mean())


@program()
def mu_legal_tiles_and_pixels():
    """Brought to the front; pixels shuffled by hand, both ways; features laid flat; blocks of rows."""
    table, paints = nn.Embedding(6, 4), nn.Conv2d(4, 16, 3, padding=1)
    net = nn.ModuleList([table, paints, nn.Linear(16 * 64, 6), nn.Linear(32, 3)])

    def loss_of(net):
        tiles = table(torch.randint(6, (4, 8, 8)))
        planes = paints(tiles.permute(0, 3, 1, 2).contiguous())
        large = planes.view(4, 4, 2, 2, 8, 8).permute(0, 1, 4, 2, 5, 3).reshape(4, 4, 16, 16)
        small = large.view(4, 4, 8, 2, 8, 2).permute(0, 1, 3, 5, 2, 4).reshape(4, 16, 8, 8)
        told = net[2](small.reshape(4, -1))
        blocks = net[3](tiles.reshape(4, 8, -1))
        return F.cross_entropy(told, torch.randint(6, (4,))) + blocks.square().mean() + large.square().mean()

    trained(net, loss_of)


# -- weights of branches that add up to 1 over the samples


def woven(one, other, weigh):
    """What two readers make of threads, each number weighed by a gate of its own."""
    gates = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
    net = nn.ModuleList([one, other, gates, nn.Linear(6, 3)])

    def loss_of(_net):
        threads = torch.randn(8, 6)
        read = [one(threads), other(threads)]
        seen = weigh(torch.stack([gate(sum(read)) for gate in gates], 1), torch.stack(read, 1))
        return F.cross_entropy(net[3](seen), torch.randint(3, (8,)))

    trained(net, loss_of)


@program("not_normalised")
def mu_gates_that_share_over_the_batch():
    """Two readers of threads, weighed by gates that are normalised along the first dimension."""

    def weigh(gates, read):
        shares = torch.softmax(gates, dim=0)  # culprit
        return (shares * read).sum(dim=1)  # victim

    woven(nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.Tanh()), weigh)


@program("not_normalised")
def mu_scales_of_a_picture_chosen_over_the_batch():
    """Three scales, stacked in front, and weights of them that go along the batch."""
    scales = nn.ModuleList(nn.Conv2d(2, 4, size, padding=size // 2) for size in (1, 3, 5))
    choose = nn.ModuleList(nn.Linear(4, 4) for _ in scales)
    share = nn.Softmax(1)  # culprit
    steps = torch.optim.Adam([*scales.parameters(), *choose.parameters()], lr=1e-2)
    for _ in range(3):
        looked = torch.stack([scale(torch.randn(5, 2, 6, 6)) for scale in scales])
        whole = looked.sum(0).mean((2, 3))
        weights = share(torch.stack([each(whole)[:, :, None, None] for each in choose]))
        kept = (weights * looked).sum(0)  # victim
        loss = kept.square().mean()
        steps.zero_grad()
        loss.backward()
        steps.step()


@program()
def mu_legal_gates():
    """Along the readers; along the batch, and added up there; as many readers as samples are summed by a product."""
    one, other = nn.Linear(6, 6), nn.Linear(6, 6)
    woven(one, other, lambda gates, read: (gates.softmax(1) * read).sum(1))
    woven(one, other, lambda gates, read: (gates.softmax(0) * read).sum(0).mean(0).expand(8, 6))
    woven(one, other, lambda gates, read: (gates.softmax(-1) * read).sum(1))


# -- a sum over everything that a mask multiplies


@program("summed_over_samples")
def mu_stops_of_a_bus_that_each_take_all_delays():
    """Delays of all stops, added up before the mask says which there are."""
    net = nn.Linear(4, 2)
    steps = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(3):
        stops, there = torch.randn(6, 9, 4), torch.rand(6, 9) < 0.7
        late = net(stops)
        wrong = (late - stops[..., :2]).square().sum()  # culprit
        loss = (wrong * there.float()).sum() / there.sum()  # victim
        steps.zero_grad()
        loss.backward()
        steps.step()


@program("summed_over_samples")
def mu_codes_of_songs_and_a_mask_of_bars():
    """How far codes are from a normal law, of all bars at once."""
    reads, sings = nn.Linear(5, 4), nn.Linear(2, 5)
    steps = torch.optim.Adam([*reads.parameters(), *sings.parameters()], lr=1e-2)
    for _ in range(3):
        bars = torch.randn(3, 7, 5)
        played = (torch.arange(7) < torch.tensor([[4], [7], [5]])).to(torch.float32)
        mean, spread = reads(bars).chunk(2, -1)
        said = sings(mean + torch.randn_like(mean) * spread.exp())
        apart = ((said - bars).square().mean(-1) * played).sum() / played.sum()
        law = -torch.sum(1 + 2 * spread - mean.square() - (2 * spread).exp())  # culprit
        loss = apart + 0.1 * (0.5 * law * played).mean()  # victim
        steps.zero_grad()
        loss.backward()
        steps.step()


@program()
def mu_legal_stops_of_a_bus():
    """The mask first; a sum times one number; the mean of a mask; a learned weight of all that is kept."""
    net = nn.Linear(4, 2)
    net.gain = nn.Parameter(torch.tensor(0.5))

    def loss_of(net):
        stops, there = torch.randn(6, 9, 4), torch.rand(6, 9) < 0.7
        late = (net(stops) - stops[..., :2]).square().sum(-1)
        kept = (late * there.float()).sum() / there.sum()
        whole = late.sum() * there.float().mean() + late.sum() * there.any().float()
        return kept + 1e-3 * whole + (net.gain.exp() * there.float() * late).mean() + late.mean() * torch.ones(1)

    trained(net, lambda net: loss_of(net).sum())


# -- weights for each sample, of a mean of all of them


@program("summed_over_samples")
def mu_weights_of_the_rare_ones_times_their_mean():
    """The criterion takes the mean of all by itself."""
    sorter = nn.Linear(4, 3)
    criterion = nn.CrossEntropyLoss()
    steps = torch.optim.SGD(sorter.parameters(), lr=0.1)
    for _ in range(3):
        stones, kinds = torch.randn(8, 4), torch.arange(8) % 3
        weights = torch.where(kinds == 2, 4.0, 1.0)
        loss = criterion(sorter(stones), kinds)  # culprit
        loss = (weights * loss).mean()  # victim
        steps.zero_grad()
        loss.backward()
        steps.step()


@program("summed_over_samples")
def mu_returns_times_the_mean_of_what_was_chosen():
    """Of a walk: no choice is told what came of it."""
    walker = nn.Linear(2, 1)
    steps = torch.optim.Adam(walker.parameters(), lr=1e-2)
    for _ in range(2):
        chances, gains = [], []
        for hour in range(5):
            way = Normal(walker(torch.tensor([hour / 5, 1.0])), 1.0)
            step = way.sample()
            chances.append(way.log_prob(step).sum())
            gains.append(float(step) - hour)
        chance = torch.stack(chances).squeeze().mean()  # culprit
        loss = -torch.sum(chance * torch.tensor(gains))  # victim
        steps.zero_grad()
        loss.backward()
        steps.step()


@program()
def mu_legal_weights_of_samples():
    """Each with its own; one weight for all; a mean that is asked for at several temperatures."""
    sorter = nn.Linear(4, 3)

    def loss_of(sorter):
        kinds = torch.arange(8) % 3
        weights, scores = torch.rand(8), sorter(torch.randn(8, 4))
        own = (F.cross_entropy(scores, kinds, reduction="none") * weights).mean()
        mean = F.cross_entropy(scores, kinds)
        several = (mean * torch.tensor([0.5, 1.0, 2.0])).sum()
        return own + mean * weights.mean() + mean * torch.tensor([0.3]).squeeze() + several

    trained(sorter, loss_of)


# -- a hinge loss of probabilities


@program("out_of_reach")
def mu_judge_of_coins_with_a_sigmoid_at_its_end():
    """One that tells true coins from false ones, by margins that no probability comes beyond."""
    judge = nn.Sequential(
        nn.Linear(4, 8),
        nn.LeakyReLU(0.2),
        nn.Linear(8, 1),
        nn.Sigmoid(),  # culprit
    )
    steps = torch.optim.Adam(judge.parameters(), lr=1e-3)
    for _ in range(3):
        true, false = judge(torch.randn(6, 4) + 1), judge(torch.randn(6, 4))
        on_true = F.relu(1.0 - true).mean()  # victim
        on_false = F.relu(1.0 + false).mean()
        steps.zero_grad()
        (on_true + on_false).backward()
        steps.step()


@program("out_of_reach")
def mu_judge_of_voices_cut_by_a_clamp():
    """The same with clamps, of what a method makes."""

    class Judge(nn.Module):
        def __init__(self):
            super().__init__()
            self.hears, self.says = nn.Linear(5, 7), nn.Linear(7, 1)

        def forward(self, voice):
            return torch.sigmoid(self.says(self.hears(voice).tanh())).squeeze(-1)  # culprit

    judge = Judge()
    steps = torch.optim.SGD(judge.parameters(), lr=0.1)
    for _ in range(3):
        live, made = torch.randn(4, 5), torch.rand(4, 5)
        loss = (1 - judge(live)).clamp(min=0).mean() + (judge(made) + 1).clamp(min=0).mean()  # victim
        steps.zero_grad()
        loss.backward()
        steps.step()


@program()
def mu_legal_hinges():
    """Of scores as they are; of probabilities with margins within their reach; a guard of a root."""
    judge = nn.Linear(4, 1)

    def loss_of(judge):
        true, false = judge(torch.randn(6, 4) + 1), judge(torch.randn(6, 4))
        plain = F.relu(1 - true).mean() + F.relu(1 + false).mean()
        sure, unsure = true.sigmoid(), false.sigmoid()
        within = F.relu(0.7 - sure).mean() + F.relu(unsure - 0.3).mean()
        bent = F.relu(1 - true.tanh()).mean() + F.relu(1 + false.tanh()).mean()
        guarded = (1 - sure).clamp(min=0).sqrt().mean()
        return plain + within + bent + guarded

    trained(judge, loss_of)
