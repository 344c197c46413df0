"""Views, masks, slices: one memory under many names."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # torch's own convention

from tests.data.programs import program


@program("view_modified")
def v_gates_of_a_chunk():
    gates = nn.Linear(2, 8)(torch.randn(3, 2))
    i, f, g, o = gates.chunk(4, dim=1)  # victim
    i.sigmoid_()  # culprit
    (i * g.tanh() + f * o).sum().backward()


@program("view_modified")
def v_query_scaled_after_a_split():
    qkv = nn.Linear(4, 12)(torch.randn(3, 4))
    q, k, v = qkv.split(4, dim=-1)  # victim
    q *= 0.5  # culprit
    F.scaled_dot_product_attention(q, k, v).sum().backward()


@program("view_modified")
def v_rows_of_unbind():
    points = nn.Linear(2, 3)(torch.randn(4, 2))
    centre = points.mean(0)
    for row in points.unbind(0):  # victim
        row -= centre  # culprit
    points.pow(2).sum().backward()


@program("view_modified")
def v_loop_over_the_rows():
    scores = nn.Linear(2, 3)(torch.randn(4, 2))
    for row in scores:  # victim
        row.sub_(row.max().item())  # culprit
    scores.exp().sum().backward()


@program("view_modified")
def v_whole_written_after_it_was_split():
    hidden = nn.Linear(4, 6)(torch.randn(3, 4))
    mean, spread = hidden.chunk(2, dim=1)
    hidden.clamp_(-1, 1)  # culprit
    (mean + spread.exp()).sum().backward()  # victim


@program("memory_overlaps")
def v_expanded_mask_filled():
    lengths = torch.tensor([2, 3, 1])
    mask = torch.ones(1, 4).expand(3, 4)  # victim
    mask *= torch.arange(4)[None] < lengths[:, None]  # culprit
    return mask


@program("memory_overlaps")
def v_shifted_onto_itself():
    series = torch.arange(6.0)
    series[1:].sub_(series[:-1])  # culprit
    return series


@program("memory_overlaps")
def v_grid_shifted_in_place():
    signal = nn.Parameter(torch.randn(8))
    grid = (signal * 1).expand(3, 8)  # victim
    grid -= torch.randn(3, 1)  # culprit
    grid.pow(2).sum().backward()


@program("saved_tensor_modified", tensor="attention", node="SoftmaxBackward0")
def v_mask_applied_after_softmax():
    scores = nn.Linear(4, 4)(torch.randn(3, 4))
    attention = torch.softmax(scores, dim=-1)  # victim
    attention.masked_fill_(torch.eye(3, 4, dtype=torch.bool), 0)  # culprit
    (attention @ torch.randn(4, 2)).sum().backward()


@program("saved_tensor_modified", tensor="kernel", route="view")
def v_noise_on_the_diagonal():
    length = nn.Parameter(torch.tensor(1.0))
    points = torch.randn(4, 2)
    kernel = torch.exp(-torch.cdist(points, points) / length)  # victim
    kernel.diagonal().add_(1e-3)  # culprit
    torch.linalg.cholesky(kernel).diagonal().log().sum().backward()


@program("saved_tensor_modified", tensor="h", route="view")
def v_flat_view_written():
    conv = nn.Conv1d(1, 2, 3)
    h = torch.tanh(conv(torch.randn(1, 1, 6)))  # victim
    flat = h.view(-1)
    flat[:3] = 0  # culprit
    h.sum().backward()


@program("saved_tensor_modified", tensor="h", route="view")
def v_transpose_written():
    h = torch.exp(torch.randn(3, 4, requires_grad=True))  # victim
    columns = h.t()
    columns[0].fill_(0)  # culprit
    h.sum().backward()


@program("saved_tensor_modified", tensor="p")
def v_squeezed_in_place():
    model = nn.Linear(3, 1)
    p = torch.sigmoid(model(torch.randn(4, 3)))  # victim
    p.squeeze_(-1)  # culprit
    F.binary_cross_entropy(p, torch.ones(4)).backward()


@program("saved_tensor_modified", tensor="x")
def v_residual_added_in_place_after_a_norm():
    norm, mix = nn.LayerNorm(4), nn.Linear(4, 4)
    x = nn.Linear(4, 4)(torch.randn(2, 4))
    h = norm(x)  # victim
    x += mix(h)  # culprit
    x.pow(2).sum().backward()


@program("saved_tensor_modified", tensor="x")
def v_positions_added_after_the_first_use():
    embed, query = nn.Embedding(5, 4), nn.Linear(4, 4)
    positions = torch.randn(3, 4)
    x = embed(torch.tensor([0, 2, 4]))
    q = query(x)  # victim
    x += positions  # culprit
    (q @ x.T).sum().backward()


@program("saved_tensor_modified", tensor="out", node="ReluBackward0")
def v_skip_connection_added_in_place():
    conv = nn.Conv2d(2, 2, 3, padding=1)
    x = torch.randn(1, 2, 4, 4)
    out = F.relu(conv(x))  # victim
    out += x  # culprit
    out.mean().backward()


@program("saved_tensor_modified", tensor="boxes")
def v_box_sizes_squared_into_themselves():
    boxes = nn.Linear(2, 4)(torch.randn(3, 2))
    boxes[:, 2:] = boxes[:, 2:] * boxes[:, 2:]  # culprit, victim
    boxes.sum().backward()


@program("saved_tensor_modified", tensor="x")
def v_standardised_in_place():
    x = nn.Linear(3, 3)(torch.randn(4, 3))
    deviation = x.std(dim=0)  # victim
    x -= x.mean(dim=0)  # culprit
    x = x / deviation
    x.exp().sum().backward()


@program("view_modified")
def v_view_made_without_gradients():
    table = nn.Embedding(4, 3).weight * 1
    with torch.no_grad():
        head = table[:2]  # victim
    head.mul_(2)  # culprit
    table.sum().backward()


@program("saved_tensor_modified", tensor="probs", route="self")
def v_row_by_row_normalised():
    probs = torch.sigmoid(nn.Linear(3, 4)(torch.randn(2, 3)))
    for i in range(2):
        probs[i] = probs[i] / probs[i].sum()  # culprit, victim
    probs.log().sum().backward()


@program("saved_tensor_modified", tensor="image", route="self")
def v_patch_pasted_into_the_image():
    conv = nn.Conv2d(1, 1, 3, padding=1)
    image = torch.rand(1, 1, 6, 6)
    before = conv(image)  # victim
    image[..., 2:4, 2:4] = 1  # culprit
    (conv(image) - before).pow(2).mean().backward()


@program("saved_tensor_modified", tensor="weights", route="detach")
def v_detached_weights_normalised():
    weights = torch.softmax(nn.Linear(3, 4)(torch.randn(2, 3)), dim=-1)  # victim
    shown = weights.detach()
    shown /= shown.max()  # culprit
    (weights * torch.randn(2, 4)).sum().backward()


@program("saved_tensor_modified", tensor="sims")
def v_self_similarity_masked():
    z = F.normalize(nn.Linear(3, 4)(torch.randn(6, 3)), dim=1)
    sims = torch.exp(z @ z.T / 0.5)  # victim
    sims.fill_diagonal_(0)  # culprit
    sims.sum(1).log().sum().backward()


@program("saved_tensor_modified", tensor="logits")
def v_top_tokens_kept_in_place():
    logits = nn.Linear(4, 6)(torch.randn(2, 4))
    entropy = torch.special.entr(torch.sigmoid(logits) * logits).sum()  # victim
    logits[logits < 0] = -1e9  # culprit
    (entropy + F.cross_entropy(logits, torch.tensor([0, 1]))).backward()
