"""Which axis holds the samples, and which gradient is whose: of reports, and of what meta-learners get wrong."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.utils.data import DataLoader, TensorDataset

from tests.data.programs import program

# -- a layer that runs along the samples


@program("another_axis")
def ax_digits_read_row_by_row():
    """The rows of each picture are the steps; the last one is taken, as of samples that come first."""

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells = nn.LSTM(7, 12, num_layers=2)  # culprit
            self.head = nn.Linear(12, 4)

        def forward(self, pictures):
            steps = pictures.view(-1, 9, 7)
            out, _state = self.cells(steps)  # victim
            return self.head(out[:, -1, :])

    pictures, digits = torch.rand(44, 63), torch.randint(0, 4, (44,))
    reader, criterion = Reader(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(reader.parameters(), lr=1e-2)
    for _epoch in range(2):
        for begin in range(0, 44, 22):
            optimizer.zero_grad()
            loss = criterion(reader(pictures[begin : begin + 22]), digits[begin : begin + 22])
            loss.backward()
            optimizer.step()


@program("another_axis")
def ax_reviews_of_a_loader_attended_to():
    """Words of reviews, pooled over the axis of the words; the encoder's layer takes that for the samples."""

    class Judge(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(30, 8)
            layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.0)  # culprit
            self.encoder = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)
            self.score = nn.Linear(8, 1)

        def forward(self, reviews):
            seen = self.encoder(self.words(reviews))  # victim
            return self.score(seen.mean(dim=1)).squeeze(-1)

    reviews, liked = torch.randint(0, 30, (30, 6)), torch.randint(0, 2, (30,)).float()
    loader = DataLoader(TensorDataset(reviews, liked), batch_size=10, shuffle=True)
    judge, criterion = Judge(), nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(judge.parameters(), lr=1e-3)
    for _epoch in range(2):
        for words, label in loader:
            loss = criterion(judge(words), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@program("another_axis")
def ax_tides_foretold_by_attention_to_the_hours():
    """Hours of a tide attend to each other, as it was meant; all hours of a day are then read at once."""
    into, out = nn.Linear(2, 8), nn.Linear(5 * 8, 1)
    attention = nn.MultiheadAttention(8, 2)  # culprit
    layers = nn.ModuleList([into, attention, out])
    optimizer = torch.optim.SGD(layers.parameters(), lr=1e-2)
    days, heights = torch.randn(48, 5, 2), torch.randn(48, 1)
    for _epoch in range(2):
        for chosen in torch.randperm(48).split(16):
            hours = into(days[chosen])
            met, _weights = attention(hours, hours, hours)  # victim
            foretold = out((hours + met).flatten(1))
            optimizer.zero_grad()
            F.mse_loss(foretold, heights[chosen]).backward()
            optimizer.step()


@program("another_axis")
def ax_songs_turned_before_a_layer_that_takes_samples_first():
    """The data is turned to have its steps first, as a layer wants it by default; this one was told otherwise."""

    class Ear(nn.Module):
        def __init__(self):
            super().__init__()
            self.gates = nn.GRU(3, 10, batch_first=True)  # culprit
            self.kind = nn.Linear(10, 5)

        def forward(self, songs):
            heard, _last = self.gates(songs.permute(1, 0, 2))  # victim
            return self.kind(heard[-1])

    songs, kinds = torch.randn(40, 7, 3), torch.randint(0, 5, (40,))
    ear = Ear()
    optimizer = torch.optim.Adam(ear.parameters(), lr=1e-3)
    for _epoch in range(3):
        for at in range(0, 40, 16):
            optimizer.zero_grad()
            loss = F.cross_entropy(ear(songs[at : at + 16]), kinds[at : at + 16])
            loss.backward()
            optimizer.step()


@program()
def ax_steps_first_and_the_last_is_taken():
    """The data has its steps first, as the layer takes them by default, and the labels are the samples'."""

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.head = nn.LSTM(7, 12), nn.Linear(12, 4)

        def forward(self, pictures):
            out, _state = self.cells(pictures.view(-1, 9, 7).transpose(0, 1))
            return self.head(out[-1])

    pictures, digits = torch.rand(44, 63), torch.randint(0, 4, (44,))
    reader = Reader()
    optimizer = torch.optim.Adam(reader.parameters(), lr=1e-2)
    for _epoch in range(2):
        for chosen in torch.randperm(44).split(22):
            optimizer.zero_grad()
            F.cross_entropy(reader(pictures[chosen]), digits[chosen]).backward()
            optimizer.step()


@program()
def ax_letters_of_a_text_each_with_its_next():
    """A language model: letters first, several texts side by side, each letter is compared with the next one."""
    letters, gates, score = nn.Embedding(20, 6), nn.GRU(6, 12), nn.Linear(12, 20)
    layers = nn.ModuleList([letters, gates, score])
    optimizer = torch.optim.Adam(layers.parameters(), lr=1e-2)
    texts = torch.randint(0, 20, (36, 4))
    for begin in range(0, 33, 8):
        many = min(8, 35 - begin)
        seen, wanted = texts[begin : begin + many], texts[begin + 1 : begin + many + 1]
        out, _last = gates(letters(seen))
        optimizer.zero_grad()
        F.cross_entropy(score(out).view(-1, 20), wanted.reshape(-1)).backward()
        optimizer.step()


@program()
def ax_tags_of_one_sentence_at_a_time():
    """A tagger of one sentence: its only batch is the second axis, and each word has a tag."""
    words, cells, tag = nn.Embedding(25, 6), nn.LSTM(6, 8), nn.Linear(8, 3)
    layers = nn.ModuleList([words, cells, tag])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    sentences = [(torch.randint(0, 25, (many,)), torch.randint(0, 3, (many,))) for many in (4, 6, 5, 7)]
    for sentence, tags in sentences:
        out, _state = cells(words(sentence).view(len(sentence), 1, -1))
        optimizer.zero_grad()
        F.nll_loss(F.log_softmax(tag(out.view(len(sentence), -1)), dim=1), tags).backward()
        optimizer.step()


@program()
def ax_each_sentence_of_a_batch_with_its_own_loss():
    """Samples come first, as the layer was told; what each of its words is, every sentence is told by itself."""
    cells, tag = nn.LSTM(5, 8, batch_first=True), nn.Linear(8, 3)
    layers = nn.ModuleList([cells, tag])
    optimizer = torch.optim.Adam(layers.parameters(), lr=1e-2)
    words, tags = torch.randn(4, 9, 5), torch.randint(0, 3, (4, 9))
    for _lap in range(3):
        out, _state = cells(words)
        loss = sum(F.cross_entropy(tag(out[at]), tags[at]) for at in range(4)) / 4
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program()
def ax_players_that_attend_to_each_other():
    """Players of several games attend to each other: they are turned to the front for that, and back again."""

    class Team(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.worth = nn.MultiheadAttention(6, 2), nn.Linear(6, 1)

        def forward(self, games):
            players = games.permute(1, 0, 2)
            met, _weights = self.attention(players, players, players)
            return self.worth(met.permute(1, 0, 2)).sum(dim=1).squeeze(-1)

    games, points = torch.randn(24, 3, 6), torch.randn(24)
    team = Team()
    optimizer = torch.optim.Adam(team.parameters(), lr=1e-2)
    for _epoch in range(2):
        for at in range(0, 24, 8):
            optimizer.zero_grad()
            F.mse_loss(team(games[at : at + 8]), points[at : at + 8]).backward()
            optimizer.step()


@program()
def ax_samples_that_attend_to_each_other_on_purpose():
    """Somebody writes out that the samples of a batch are to attend to each other, cell by cell."""
    mix = nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=False)
    head = nn.Linear(6, 2)
    layers = nn.ModuleList([mix, head])
    optimizer = torch.optim.Adam(layers.parameters(), lr=1e-3)
    cells, kinds = torch.randn(30, 4, 6), torch.randint(0, 2, (30,))
    for _epoch in range(2):
        for chosen in torch.randperm(30).split(10):
            optimizer.zero_grad()
            F.cross_entropy(head(mix(cells[chosen]).mean(1)), kinds[chosen]).backward()
            optimizer.step()


# -- what an inner step has made is written into a copy, without its history


def waves(many=12):
    """Points of a sine of some height and beginning, and their values."""
    high, begins, at = torch.rand(()) * 2 + 1, torch.rand(()) * 3, torch.rand(many, 1) * 6 - 3
    return at, high * torch.sin(at + begins)


def regressor():
    return nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))


@program("graph_cut")
def ax_a_pupil_that_is_given_the_numbers_of_a_learned_step():
    """Two inner steps, each written into the pupil under `no_grad`; the outer loss is the pupil's."""
    teacher, pupil = regressor(), regressor()
    outer = torch.optim.Adam(teacher.parameters(), lr=1e-2)
    for _round in range(4):
        at, value = waves()
        pupil.load_state_dict(teacher.state_dict())
        inner = F.mse_loss(teacher(at), value)
        slopes = torch.autograd.grad(inner, list(teacher.parameters()), create_graph=True)
        with torch.no_grad():
            for mine, theirs, slope in zip(pupil.parameters(), teacher.parameters(), slopes, strict=True):
                with torch.enable_grad():
                    moved = theirs - 0.05 * slope
                mine.copy_(moved)  # culprit
        loss = F.mse_loss(pupil(at + 0.1), value) + 0.01 * inner
        outer.zero_grad()
        loss.backward()  # victim
        outer.step()


@program("graph_cut")
def ax_a_vector_of_moved_weights_put_into_a_worker():
    """All weights in a row, moved by their gradient, and dealt out to a worker's Parameters."""
    chief, worker = regressor(), copy.deepcopy(regressor())
    step = torch.optim.SGD(chief.parameters(), lr=1e-2)
    for _day in range(3):
        step.zero_grad()
        for _job in range(2):
            at, value = waves()
            first = (chief(at) - value).pow(2).mean()
            slopes = torch.autograd.grad(first, list(chief.parameters()), create_graph=True)
            moved = parameters_to_vector(chief.parameters()) - 0.1 * parameters_to_vector(slopes)
            vector_to_parameters(moved, worker.parameters())  # culprit
            again = (worker(at) - value).pow(2).mean()
            (again + first).backward()  # victim
        step.step()


@program()
def ax_a_worker_of_the_first_order():
    """The worker's gradients are taken for the chief's own: no history is needed for that."""
    chief, worker = regressor(), regressor()
    step = torch.optim.SGD(chief.parameters(), lr=1e-2)
    for _day in range(3):
        at, value = waves()
        slopes = torch.autograd.grad((chief(at) - value).pow(2).mean(), list(chief.parameters()))
        moved = [weight - 0.1 * slope for weight, slope in zip(chief.parameters(), slopes, strict=True)]
        with torch.no_grad():
            for mine, given in zip(worker.parameters(), moved, strict=True):
                mine.copy_(given)
        worker.zero_grad()
        (worker(at) - value).pow(2).mean().backward()
        for theirs, mine in zip(chief.parameters(), worker.parameters(), strict=True):
            theirs.grad = mine.grad.clone()
        step.step()


@program()
def ax_moved_weights_that_are_called_with_and_kept_to_look_at():
    """The outer loss goes by the values themselves; a copy of their numbers is tried on other points."""
    net, shown = regressor(), regressor()
    outer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _round in range(3):
        at, value = waves()
        slopes = torch.autograd.grad(F.mse_loss(net(at), value), list(net.parameters()), create_graph=True)
        moved = {name: w - 0.1 * s for (name, w), s in zip(net.named_parameters(), slopes, strict=True)}
        shown.load_state_dict(moved)
        outer.zero_grad()
        F.mse_loss(torch.func.functional_call(net, moved, (at,)), value).backward()
        outer.step()
        shown.zero_grad()
        F.mse_loss(shown(at + 0.5), value).backward()


@program()
def ax_a_walker_that_the_slow_weights_go_after():
    """Reptile: a copy walks by steps of its own, and the slow weights go a part of its way."""
    slow = regressor()
    step = torch.optim.SGD(slow.parameters(), lr=0.5)
    for _round in range(3):
        at, value = waves()
        walker = copy.deepcopy(slow)
        strides = torch.optim.SGD(walker.parameters(), lr=0.05)
        for _stride in range(2):
            strides.zero_grad()
            F.mse_loss(walker(at), value).backward()
            strides.step()
        for held, went in zip(slow.parameters(), walker.parameters(), strict=True):
            held.grad = held.detach() - went.detach()
        step.step()


# -- numbers that are taken out of a result, and made a tensor again elsewhere


@program("never_reached")
def ax_guesses_of_a_walk_noted_as_numbers():
    """Policy and worth of each place; the worth is noted as a number, and the loss compares these notes."""

    class Walker(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.way, self.worth = nn.Linear(3, 8), nn.Linear(8, 2), nn.Linear(8, 1)

        def forward(self, place):
            seen = torch.relu(self.stem(place))
            return torch.log_softmax(self.way(seen), -1), self.worth(seen)

    def walk(walker, many=6):
        ways, guesses, found = [], [], []
        for _stride in range(many):
            logs, guess = walker(torch.randn(3))
            chosen = int(torch.multinomial(logs.exp().detach(), 1))
            ways.append(logs[chosen])
            guesses.append(float(guess))  # culprit
            found.append(float(chosen))
        return torch.stack(ways), torch.tensor(guesses), torch.tensor(found)

    walker = Walker()
    optimizer = torch.optim.Adam(walker.parameters(), lr=1e-2)
    for _walk in range(4):
        ways, guesses, found = walk(walker)
        loss = -(ways * (found - guesses)).mean() + F.mse_loss(guesses, found)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("never_reached")
def ax_doubts_of_a_second_head_gathered_in_a_list():
    """Each batch's doubts join a list of numbers; the loss is weighed by a tensor of that list."""
    stem, mean, doubt = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*stem.parameters(), *mean.parameters(), *doubt.parameters()], lr=1e-2)
    x, y = torch.randn(24, 4), torch.randn(24)
    for _epoch in range(3):
        foretold, doubts = [], []
        for begin in range(0, 24, 8):
            seen = torch.tanh(stem(x[begin : begin + 8]))
            foretold.append(mean(seen).squeeze(1))
            spread = F.softplus(doubt(seen)).squeeze(1)
            doubts.extend(spread.tolist())  # culprit
        weights = torch.tensor(doubts)
        loss = ((torch.cat(foretold) - y) ** 2 / weights + weights.log()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def ax_guesses_noted_beside_what_the_loss_takes():
    """The notes are to be shown; the loss has the guesses themselves."""
    stem, worth = nn.Linear(3, 8), nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*stem.parameters(), *worth.parameters()], lr=1e-2)
    shown = []
    for _walk in range(4):
        guesses, found = [], torch.randn(5)
        for place in torch.randn(5, 3):
            guess = worth(torch.relu(stem(place)))
            shown.append(guess.item())
            guesses.append(guess)
        loss = F.mse_loss(torch.cat(guesses), found)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown.append(loss.item())


@program()
def ax_a_baseline_that_another_optimiser_trains():
    """The policy's loss has the numbers of a guess, as it should; the guess learns by a loss of its own."""
    policy, worth = nn.Linear(3, 2), nn.Linear(3, 1)
    first = torch.optim.SGD(policy.parameters(), lr=1e-2)
    second = torch.optim.SGD(worth.parameters(), lr=1e-2)
    for _walk in range(3):
        places, found = torch.randn(6, 3), torch.randn(6)
        baseline = torch.tensor(worth(places).squeeze(1).tolist())
        first.zero_grad()
        (-torch.log_softmax(policy(places), 1)[:, 0] * (found - baseline)).mean().backward()
        first.step()
        second.zero_grad()
        F.mse_loss(worth(places).squeeze(1), found).backward()
        second.step()


# -- gradients that are kept after each of several backward calls


@program("gradients_never_cleared")
def ax_conflict_of_two_tasks_in_what_they_share():
    """The angle between two tasks' gradients decides on their weights; the second one's holds the first one's."""
    shared, left, right = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 1)
    optimizer = torch.optim.Adam([*shared.parameters(), *left.parameters(), *right.parameters()], lr=1e-2)
    for _lap in range(3):
        x, y, z = torch.randn(8, 4), torch.randn(8, 1), torch.randn(8, 1)
        seen = torch.relu(shared(x))
        one, other = F.mse_loss(left(seen), y), F.mse_loss(right(seen), z)
        optimizer.zero_grad()
        one.backward(retain_graph=True)
        first = shared.weight.grad.clone().flatten()
        other.backward(retain_graph=True)  # culprit
        second = shared.weight.grad.clone().flatten()  # victim
        share = (torch.cosine_similarity(first, second, dim=0) + 1) / 2
        optimizer.zero_grad()
        (one + share * other).backward()
        optimizer.step()


@program("gradients_never_cleared")
def ax_weights_that_matter_to_what_was_learned():
    """How much each weight matters is the mean of its squared gradients, one sample after the other."""
    net, criterion = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)), nn.CrossEntropyLoss()
    samples, kinds = torch.randn(10, 3), torch.randint(0, 2, (10,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _epoch in range(2):
        optimizer.zero_grad()
        criterion(net(samples), kinds).backward()
        optimizer.step()
    optimizer.zero_grad()
    matters = {name: torch.zeros_like(weight) for name, weight in net.named_parameters()}
    for sample, kind in zip(samples, kinds, strict=True):
        criterion(net(sample.unsqueeze(0)), kind.unsqueeze(0)).backward()  # culprit
        for name, weight in net.named_parameters():
            matters[name] += weight.grad.detach() ** 2 / len(samples)  # victim
    return matters


@program()
def ax_norms_of_a_sum_that_grows_until_its_step():
    """Four small batches to a step: how far their sum has grown is noted after each of them."""
    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    grown = []
    for batch in range(10):
        x, y = torch.randn(4, 3), torch.randn(4, 1)
        (F.mse_loss(net(x), y) / 4).backward()
        grown.append(net.weight.grad.norm().item())
        if batch % 4 == 3:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


@program()
def ax_each_task_s_part_of_a_sum():
    """What the second call has added is the sum without what was there before."""
    shared, left, right = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 1)
    optimizer = torch.optim.Adam([*shared.parameters(), *left.parameters(), *right.parameters()], lr=1e-2)
    for _lap in range(3):
        seen = torch.relu(shared(torch.randn(8, 4)))
        one, other = left(seen).pow(2).mean(), right(seen).abs().mean()
        optimizer.zero_grad()
        one.backward(retain_graph=True)
        first = shared.weight.grad.clone()
        other.backward(retain_graph=True)
        both = shared.weight.grad.clone()
        second = both - first
        share = torch.cosine_similarity(first.flatten(), second.flatten(), dim=0).clamp(min=0)
        optimizer.zero_grad()
        (one + share * other).backward()
        optimizer.step()


@program()
def ax_gradients_of_each_sample_cleared_between():
    """Each sample's gradient is kept, and taken away before the next one comes."""
    net = nn.Linear(3, 2)
    kept = []
    for sample in torch.randn(5, 3):
        net.zero_grad()
        net(sample).sum().backward()
        kept.append(net.weight.grad.flatten().clone())
    return torch.stack(kept)


@program()
def ax_a_lesson_on_gradients_that_add_up():
    """A variable, and what is in its gradient after one call and after another."""
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    (x * x).sum().backward()
    once = x.grad.clone()
    (x * x).sum().backward()
    twice = x.grad.clone()
    return once, twice
