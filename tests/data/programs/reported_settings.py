"""Programs of trainings that run and learn the wrong thing: classes, shapes, modes, rates, what is made anew."""

from __future__ import annotations

import copy

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
    model, measure = Birds(), nn.NLLLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(4):
        song, bird = torch.randn(6, 2, 12), torch.randint(4, (6,))
        loss = measure(model(song), bird)  # culprit
        optimizer.zero_grad()
        loss.backward()  # victim
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


class Tides(nn.Module):
    """How high the water will be; what `drop` does with what is seen on the way."""

    def __init__(self, drop=None):
        super().__init__()
        self.near, self.far, self.drop = nn.Linear(5, 8), nn.Linear(8, 1), drop

    def forward(self, x):
        seen = torch.relu(self.near(x))
        return self.far(seen if self.drop is None else self.drop(self, seen))


def watched(model, rounds=2):
    """Training and evaluation take turns."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(rounds):
        model.train()
        for _ in range(3):
            x = torch.randn(6, 5)
            loss = (model(x) - x[:, :1]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            model(torch.randn(6, 5))


@program("dropout_in_evaluation")
def tc_tides_that_drop_in_both_modes():
    """rixwew/pytorch-fm#21, delip/PyTorchNLPBook#28: `F.dropout` without `training=self.training`."""

    def some(_model, seen):
        return F.dropout(seen, p=0.3)  # culprit, victim

    model = Tides(some)
    watched(model)


@program("dropout_in_evaluation")
def tc_tides_whose_dropout_is_made_where_it_is_used():
    """A layer of dropout that no module holds."""

    def some(_model, seen):
        return nn.Dropout(0.3)(seen)  # culprit, victim

    model = Tides(some)
    watched(model)


@program("dropout_in_evaluation")
def tc_tides_that_look_around_with_a_share_dropped():
    """karpathy/nanoGPT#240: the attention's `dropout_p` is the same in both modes."""

    def some(_model, seen):
        rows = seen.unsqueeze(1)
        return F.scaled_dot_product_attention(rows, rows, rows, dropout_p=0.2).squeeze(1)  # culprit, victim

    model = Tides(some)
    watched(model)


@program()
def tc_legal_tides_that_know_their_mode():
    """The mode handed on; a layer that the module holds; one put into training mode by itself; a draw that is meant."""

    class Modal(Tides):
        def __init__(self):
            super().__init__()
            self.some, self.always = nn.Dropout(0.3), nn.Dropout(0.1)

        def forward(self, x):
            seen = self.some(F.dropout(torch.relu(self.near(x)), 0.2, self.training))
            return self.far(F.dropout(self.always(seen), p=0.1, training=True))

        def eval(self):
            super().eval()
            self.always.train()
            return self

    watched(Modal())


@program()
def tc_legal_tides_that_are_only_drawn_from():
    """No evaluation mode but from the first: nothing says that this line was to know a mode."""

    def some(_model, seen):
        return F.dropout(seen, p=0.3)

    model = Tides(some).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        x = torch.randn(6, 5)
        loss = (model(x) - x[:, :1]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# -- a frozen module that counts its batches


class Shells(nn.Module):
    """An eye that was trained before, and a new head."""

    def __init__(self):
        super().__init__()
        self.eye = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU())
        self.kind = nn.Linear(6, 3)

    def forward(self, x):
        return self.kind(self.eye(x))


def kinds(model, optimizer, steps=3):
    """Some steps on batches of shells."""
    for _ in range(steps):
        x, y = torch.randn(6, 4), torch.randint(3, (6,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("freeze_without_effect")
def tc_an_eye_whose_statistics_go_on():
    """pgniewko/gt-pyg#112: what is frozen is in training mode again at each epoch."""
    model = Shells()
    for leaf in model.eye.parameters():
        leaf.requires_grad = False  # culprit
    optimizer = torch.optim.SGD(model.kind.parameters(), lr=0.05)
    for _ in range(3):
        model.train()
        x, y = torch.randn(6, 4), torch.randint(3, (6,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()


@program()
def tc_legal_eyes_that_rest():
    """In evaluation mode after each `train()`; a teacher without gradients; frozen for a while only."""
    model, teacher = Shells(), Shells()
    teacher.requires_grad_(False)
    model.eye.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model.train()
    model.eye.eval()
    for _ in range(3):
        x, y = torch.randn(6, 4), torch.randint(3, (6,))
        with torch.no_grad():
            soft = teacher(x).softmax(1)
        scores = model(x)
        loss = F.cross_entropy(scores, y) + F.kl_div(scores.log_softmax(1), soft, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.train()
    kinds(model, optimizer)
    model.eye.requires_grad_(True)
    kinds(model, optimizer)


@program("trained_in_evaluation")
def tc_shells_whose_train_is_only_named():
    """`model.train` without its brackets, behind an evaluation."""
    model = Shells()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(3):
        model.train  # noqa: B018  # culprit
        x, y = torch.randn(6, 4), torch.randint(3, (6,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim
        model.eval()
        with torch.no_grad():
            model(torch.randn(6, 4))


# -- rates, and an optimiser for each step


class Kites(nn.Module):
    """How far a kite flies."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def far(self):
        wind = torch.randn(6, 4)
        return (self.body(wind) - wind.sum(1, keepdim=True)).pow(2).mean()


@program("result_dropped")
def tc_a_rate_that_only_the_optimiser_has():
    """`optimizer.lr = …`: an attribute that nothing reads."""
    model = Kites()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        optimizer.lr = 0.1 * 0.5**epoch  # culprit
        loss = model.far()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program("rate_run_out")
def tc_a_schedule_that_is_given_a_rate():
    """`LambdaLR` with a function that gives the rate itself: it is squared."""
    model = Kites()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1e-3 * 0.9**epoch)  # culprit
    for _ in range(6):
        loss = model.far()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim
        schedule.step()


@program("rate_run_out")
def tc_a_warm_up_that_counts_in_whole_numbers():
    """`step // steps` is 0 until the last."""
    model = Kites()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(12):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min(1, step // 100)  # culprit
        loss = model.far()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def tc_legal_rates():
    """A warm-up whose first factor is the rate's own size, one that begins at 0, an attribute beside the groups."""
    model = Kites()
    slow = torch.optim.Adam(model.parameters(), lr=1e-3)
    warm = torch.optim.lr_scheduler.LambdaLR(slow, lambda step: min(1.0, (step + 1) / 1000))
    for step in range(10):
        slow.lr = slow.param_groups[0]["lr"]
        loss = model.far()
        slow.zero_grad()
        loss.backward()
        slow.step()
        warm.step()
        if step == 0:
            assert warm.get_last_lr()[0] > 1e-6
    quick = torch.optim.SGD(model.parameters(), lr=0.1)
    begins = torch.optim.lr_scheduler.LambdaLR(quick, lambda step: min(1.0, step / 4))
    for _ in range(10):
        loss = model.far()
        quick.zero_grad()
        loss.backward()
        quick.step()
        begins.step()


@program("optimiser_made_again")
def tc_an_optimiser_for_each_batch():
    """Wangyixinxin/ACN#9: `Adam` is made inside the loop over batches."""
    model = Kites()
    for _ in range(6):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # culprit
        loss = model.far()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # victim


@program()
def tc_legal_optimisers_made_often():
    """For a task's own copy, for several steps each, without any memory, for weights that go halfway back (Reptile)."""
    model = Kites()
    start = copy.deepcopy(model.state_dict())
    for _ in range(5):
        own = copy.deepcopy(model)
        inner = torch.optim.Adam(own.parameters(), lr=0.01)
        own.far().backward()
        inner.step()
        plain = torch.optim.SGD(model.parameters(), lr=0.01)
        plain.zero_grad()
        model.far().backward()
        plain.step()
        several = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(3):
            several.zero_grad()
            model.far().backward()
            several.step()
    for _ in range(5):
        task = torch.optim.Adam(model.parameters(), lr=0.01)
        task.zero_grad()
        model.far().backward()
        task.step()
        now = model.state_dict()
        start = {name: (start[name] + 0.5 * (now[name] - start[name])).clone() for name in start}
        model.load_state_dict(start)


# -- a loss that is turned round, a target that was given


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


@program()
def tc_legal_rate_that_the_loop_reads():
    """An attribute of the optimiser's by which the loop itself sets each group."""
    model = Kites()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.lr = 0.4
    for step in range(5):
        for group in optimizer.param_groups:
            group["lr"] = optimizer.lr * 0.5**step
        loss = model.far()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
