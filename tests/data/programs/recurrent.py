"""State that outlives one step: hidden states, cells, caches, losses that are added up."""

from __future__ import annotations

import torch
from torch import nn

from tests.data.programs import program


def batches(count=3):
    return [torch.randn(4, 2) for _ in range(count)]


@program("graph_freed", tensor="h")
def r_hidden_state_carried_over():
    w_in, w_rec = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(3, 3))
    h = torch.zeros(4, 3)
    for x in batches():
        h = torch.tanh(x @ w_in + h @ w_rec)  # culprit, victim
        loss = h.pow(2).mean()
        loss.backward()


@program("graph_freed")
def r_lstm_cell_state_carried_over():
    cell, head = nn.LSTMCell(2, 3), nn.Linear(3, 1)
    opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    h, c = torch.zeros(4, 3), torch.zeros(4, 3)
    for x in batches():
        h, c = cell(x, (h, c))  # culprit, victim
        loss = head(h).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


@program("graph_freed", tensor="state")
def r_gru_state_kept_in_a_model():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru, self.head = nn.GRU(2, 3, batch_first=True), nn.Linear(3, 1)

        def forward(self, x, state):
            out, state = self.gru(x, state)  # victim
            return self.head(out), state

    model, state = Tagger(), None
    for _ in range(2):
        scores, state = model(torch.randn(4, 5, 2), state)  # culprit
        scores.mean().backward()


@program("saved_tensor_modified", route="self")
def r_retain_graph_does_not_help_when_parameters_move():
    embed, recur = nn.Linear(2, 3), nn.Linear(3, 3)
    opt = torch.optim.Adam([*embed.parameters(), *recur.parameters()], lr=0.01)
    h = torch.zeros(4, 3)
    for x in batches():
        h = torch.tanh(embed(x) + recur(h))  # culprit, victim
        loss = h.pow(2).mean()
        opt.zero_grad()
        loss.backward(retain_graph=True)
        opt.step()


@program("saved_tensor_modified", tensor="h", node="TanhBackward0")
def r_finished_sequences_reset_in_place():
    cell = nn.Linear(5, 3)
    h = torch.zeros(4, 3)
    total = torch.zeros(())
    finished = torch.tensor([False, True, False, False])
    for x in batches():
        h = torch.tanh(cell(torch.cat([x, h], dim=1)))  # victim
        total = total + h.sum()
        h[finished] = 0  # culprit
    total.backward()


@program("saved_tensor_modified")
def r_states_read_from_the_buffer_they_are_written_to():
    w = nn.Parameter(torch.randn(3, 3))
    states = torch.zeros(5, 3)
    states[0] = torch.randn(3)
    for t in range(1, 5):
        states[t] = torch.tanh(states[t - 1] @ w)  # culprit, victim
    states.sum().backward()


@program("graph_freed", tensor="total")
def r_running_loss_that_keeps_its_graph():
    model = nn.Linear(2, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for x in batches():
        loss = (model(x) - 1).pow(2).mean()  # victim
        total = total + loss
        opt.zero_grad()
        total.backward()  # culprit


@program("graph_freed", tensor="keys")
def r_key_cache_grows_with_its_graph():
    query, key = nn.Linear(2, 3), nn.Linear(2, 3)
    keys = torch.zeros(0, 3)
    for x in batches():
        keys = torch.cat([keys, key(x)])  # culprit, victim
        attention = torch.softmax(query(x) @ keys.T, dim=-1)
        loss = attention.max(dim=-1).values.mean()
        loss.backward()


@program("graph_freed", tensor="start")
def r_first_state_computed_once():
    encoder, cell = nn.Linear(2, 3), nn.Linear(2, 3)
    start = torch.tanh(encoder(torch.randn(4, 2)))  # culprit, victim
    for x in batches():
        h = torch.tanh(cell(x) + start)
        h.sum().backward()


@program("saved_tensor_modified", tensor="h", node="TanhBackward0")
def r_state_clamped_in_place():
    cell = nn.RNNCell(2, 3)
    h = torch.zeros(4, 3)
    loss = torch.zeros(())
    for x in batches():
        h = torch.tanh(cell(x, h))  # victim
        h.clamp_(-0.2, 0.2)  # culprit
        loss = loss + h.sum()
    loss.backward()


@program()
def r_cell_state_updated_in_place():
    gates = nn.Linear(2, 9)
    c = torch.zeros(4, 3)
    total = torch.zeros(())
    for x in batches(2):
        forget, update, out = torch.sigmoid(gates(x)).reshape(4, 3, 3).permute(1, 0, 2)
        c.mul_(forget)  # torch keeps a copy of what an in-place op needs of its own input
        c.add_(update)
        total = total + (out * c.tanh()).sum()
    total.backward()
    return gates.weight.grad


@program("graph_freed")
def r_two_heads_one_encoder():
    encoder, tagger, ranker = nn.LSTM(2, 3), nn.Linear(3, 2), nn.Linear(3, 1)
    features, _ = encoder(torch.randn(5, 4, 2))  # victim
    tagger(features).mean().backward()  # culprit
    ranker(features).mean().backward()


@program("graph_freed", tensor="memory")
def r_memory_bank_of_features():
    encoder = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    memory = torch.zeros(4, 3)
    for x in batches():
        features = encoder(x)
        memory = 0.9 * memory + 0.1 * features  # culprit, victim
        loss = (features - memory).pow(2).mean()
        loss.backward()


@program("saved_tensor_modified", tensor="memory", route="self")
def r_memory_written_after_it_was_read():
    memory = torch.randn(6, 3)
    read, write = nn.Linear(2, 3), nn.Linear(2, 3)
    loss = torch.zeros(())
    for t, x in enumerate(batches()):
        weights = torch.softmax(read(x) @ memory.T, dim=-1)  # victim
        memory[t] = write(x).mean(0)  # culprit
        loss = loss + weights.max()
    loss.backward()


@program("saved_tensor_modified", tensor="decoded")
def r_tokens_decoded_into_one_tensor():
    step = nn.Linear(4, 2)
    decoded = torch.zeros(1, 4)
    losses = []
    for t in range(1, 3):
        out = step(decoded)  # victim
        decoded[0, t] = out.max()  # culprit
        losses.append(out.sum())
    torch.stack(losses).sum().backward()


@program("graph_freed")
def r_state_of_two_steps_with_a_backward_call_each():
    cell, head = nn.GRUCell(2, 3), nn.Linear(3, 1)
    opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
    h = torch.zeros(4, 3)
    h = cell(torch.randn(4, 2), h)  # victim
    head(h).pow(2).mean().backward()
    opt.step()
    h = cell(torch.randn(4, 2), h)  # culprit
    head(h).abs().mean().backward()
