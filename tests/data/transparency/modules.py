"""Modules of torch.nn, and what is done with modules: copied, pickled, loaded, moved, reparametrised."""

from __future__ import annotations

import copy
import io
import pickle

import torch
from torch import nn
from torch.nn.utils import parametrizations, rnn

from tests.data.transparency import whole


def run(module, *inputs):
    """(output, gradients) of one step."""
    out = module(*inputs)
    first = out[0] if isinstance(out, tuple) else out
    first.square().sum().backward()
    return out, [each.grad for each in module.parameters()]


@whole
def w_lstm():
    return run(nn.LSTM(3, 4, num_layers=2, dropout=0.2, bidirectional=True), torch.randn(5, 2, 3))


@whole
def w_packed_gru():
    gru = nn.GRU(3, 4)
    packed = rnn.pack_sequence([torch.randn(4, 3), torch.randn(2, 3)])
    out, hidden = gru(packed)
    padded, lengths = rnn.pad_packed_sequence(out)
    (padded.sum() + hidden.sum()).backward()
    return padded, lengths, [each.grad for each in gru.parameters()]


@whole
def w_lstm_cell_over_time():
    cell = nn.LSTMCell(3, 4)
    hidden = torch.zeros(2, 4), torch.zeros(2, 4)
    for _ in range(4):
        hidden = cell(torch.randn(2, 3), hidden)
    hidden[0].sum().backward()
    return hidden, [each.grad for each in cell.parameters()]


@whole
def w_attention():
    x = torch.randn(5, 2, 8, requires_grad=True)
    return run(nn.MultiheadAttention(8, 2, dropout=0.1), x, x, x), x.grad


@whole
def w_scaled_dot_product_attention():
    q, k, v = (torch.randn(2, 2, 5, 4, requires_grad=True) for _ in "qkv")
    out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    out.square().sum().backward()
    return out, q.grad, k.grad, v.grad


@whole
def w_encoder_in_training():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return run(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(2, 5, 8))


@whole
def w_convolutional_net():
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout2d(0.3),
        nn.Flatten(),
        nn.Linear(36, 3),
        nn.LogSoftmax(dim=-1),
    )
    result = run(net, torch.randn(2, 1, 6, 6))
    return result, net, net.eval()(torch.randn(1, 1, 6, 6))


@whole
def w_embedding_with_max_norm():
    embedding = nn.Embedding(6, 3, max_norm=1.0, padding_idx=0)
    return run(embedding, torch.tensor([1, 2, 2, 0])), embedding


@whole
def w_embedding_bag_with_sparse_gradients():
    bag = nn.EmbeddingBag(6, 3, sparse=True, mode="sum")
    optimiser = torch.optim.SparseAdam(bag.parameters())
    result = run(bag, torch.tensor([1, 2, 4, 5]), torch.tensor([0, 2]))
    optimiser.step()
    return result, bag


@whole
def w_losses():
    logits = torch.randn(4, 3, requires_grad=True)
    target = torch.tensor([0, 2, 1, 1])
    losses = [
        nn.CrossEntropyLoss(label_smoothing=0.1)(logits, target),
        nn.NLLLoss()(logits.log_softmax(-1), target),
        nn.MultiMarginLoss()(logits, target),
        nn.SmoothL1Loss()(logits, torch.zeros(4, 3)),
        nn.KLDivLoss(reduction="batchmean")(logits.log_softmax(-1), torch.full((4, 3), 1 / 3)),
    ]
    sum(losses).backward()
    return losses, logits.grad


@whole
def w_norms_and_activations():
    net = nn.Sequential(
        nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 6), nn.SiLU(inplace=True), nn.PReLU(), nn.Softmax(-1), nn.RMSNorm(6)
    )
    return run(net, torch.randn(3, 6))


@whole
def w_reparametrised():
    lin = parametrizations.weight_norm(nn.Linear(3, 4))
    spectral = parametrizations.spectral_norm(nn.Linear(4, 2))
    return run(nn.Sequential(lin, spectral), torch.randn(2, 3)), spectral.weight


@whole
def w_deepcopy():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    net(torch.randn(1, 2)).sum().backward()
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin[0].weight.mul_(2)
    leaf = torch.randn(2, requires_grad=True)
    return net, twin, [each.grad for each in twin.parameters()], copy.deepcopy(leaf), copy.copy(net)[0] is net[0]


@whole
def w_deepcopy_of_what_is_no_leaf():
    return copy.deepcopy(torch.randn(2, requires_grad=True).exp())


@whole
def w_pickled():
    net = nn.Linear(2, 3)
    net.weight.register_hook(hash)
    twin = pickle.loads(pickle.dumps(torch.randn(2, requires_grad=True)))  # noqa: S301  # our own bytes
    clean = pickle.loads(pickle.dumps(nn.Linear(2, 3)))  # noqa: S301  # our own bytes
    return twin, clean, len(net.weight._backward_hooks)


@whole
def w_saved_and_loaded():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    fresh = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    said = fresh.load_state_dict(torch.load(file))
    taken = nn.Linear(2, 3)
    taken.load_state_dict(net[0].state_dict(), assign=True)
    return fresh, str(said), taken, taken.weight.data_ptr() == net[0].weight.data_ptr()


@whole
def w_loaded_into_the_wrong_module():
    nn.Linear(2, 3).load_state_dict({"weight": torch.zeros(2, 2), "other": torch.zeros(1)})


@whole
def w_loaded_between_forward_and_backward():
    lin = nn.Linear(2, 2)
    out = lin(torch.randn(3, 2, requires_grad=True)).sigmoid()
    lin.load_state_dict({name: each * 2 for name, each in lin.state_dict().items()})
    out.sum().backward()


@whole
def w_moved_to_another_dtype():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    half = copy.deepcopy(net).to(torch.bfloat16)
    return run(net.double(), torch.randn(4, 2, dtype=torch.float64)), run(half, torch.randn(4, 2, dtype=torch.bfloat16))


@whole
def w_lazy_modules():
    net = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyBatchNorm1d())
    return run(net, torch.randn(3, 5)), net


@whole
def w_initialised():
    lin = nn.Linear(4, 4)
    for fill in (nn.init.xavier_uniform_, nn.init.orthogonal_, nn.init.kaiming_normal_, nn.init.trunc_normal_):
        fill(lin.weight)
    nn.init.constant_(lin.bias, 0.1)
    return lin, lin.weight._version


@whole
def w_shared_weights():
    embedding = nn.Embedding(5, 3)
    head = nn.Linear(3, 5, bias=False)
    head.weight = embedding.weight
    nn.functional.cross_entropy(head(embedding(torch.tensor([1, 2]))), torch.tensor([2, 3])).backward()
    return embedding.weight.grad


@whole
def w_parameter_lists():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.ParameterList([nn.Parameter(torch.randn(2)) for _ in range(3)])
            self.named = nn.ParameterDict({"a": nn.Parameter(torch.randn(2))})
            self.parts = nn.ModuleDict({"lin": nn.Linear(2, 2)})

        def forward(self, x):
            for weight in self.weights:
                x = x * weight
            return self.parts["lin"](x + self.named["a"])

    return run(Net(), torch.randn(3, 2))
