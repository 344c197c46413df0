"""Second derivatives of a field over a plane, and of a critic, asked for wrongly and rightly."""

from __future__ import annotations

import torch
from torch import autograd, nn

from tests.data.programs import program


def field(inside=2):
    return nn.Sequential(nn.Linear(inside, 8), nn.Tanh(), nn.Linear(8, 1))


def fitted(net, residual, inside=2, laps=3):
    """Trained for some laps so that what is asked of its derivatives comes close to nothing."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(laps):
        points = torch.rand(12, inside).requires_grad_(True)
        out = net(points)
        loss = residual(points, out).square().mean() + out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("columns_added")
def cd_laplacian_of_both_columns():
    """prateekbhustali/Physics-Informed-Neural-Networks#4: each term of the Laplacian holds a mixed derivative, too."""
    net = field()

    def residual(g, u):
        u_x = autograd.grad(u, g, torch.ones_like(u), create_graph=True)[0]
        u_xx = autograd.grad(u_x, g, torch.ones_like(u_x), create_graph=True)[0]  # culprit
        return u_xx[:, [0]] + u_xx[:, [1]] + u  # victim

    fitted(net, residual)


@program("columns_added")
def cd_one_column_of_a_helper():
    """A helper that differentiates whatever it's given."""
    net = field()

    def derivative(y, x):
        ones = torch.ones(y.shape)
        return autograd.grad(y, x, grad_outputs=ones, create_graph=True)[0]  # culprit

    def residual(points, u):
        slopes = derivative(u, points)
        curves = derivative(slopes, points)
        return slopes[:, 0] - 0.1 * curves[:, 1]  # victim

    fitted(net, residual)


@program("columns_added")
def cd_three_places_split():
    net = field(3)

    def residual(points, u):
        (first,) = autograd.grad(u.sum(), points, create_graph=True)
        (second,) = autograd.grad(first, points, torch.ones_like(first), create_graph=True)  # culprit
        u_xx, u_yy, u_zz = second.split(1, dim=1)  # victim
        return u_xx + u_yy + u_zz

    fitted(net, residual, inside=3)


@program()
def cd_legal_one_column_at_a_time():
    net = field()

    def residual(points, u):
        (first,) = autograd.grad(u.sum(), points, create_graph=True)
        curves = [autograd.grad(first[:, at].sum(), points, create_graph=True)[0][:, at] for at in range(2)]
        return curves[0] + curves[1]

    fitted(net, residual)


@program()
def cd_legal_product_with_a_vector():
    """A row of the Hessian times a vector, as it is wanted whole."""
    net = field()

    def residual(points, u):
        (first,) = autograd.grad(u.sum(), points, create_graph=True)
        (product,) = autograd.grad(first, points, torch.ones_like(first), create_graph=True)
        return product.sum(dim=1)

    fitted(net, residual)


@program()
def cd_legal_second_derivative_of_a_line():
    net = field(1)

    def residual(x, u):
        slope = autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
        curve = autograd.grad(slope, x, torch.ones_like(slope), create_graph=True)[0]
        return curve[:, 0] + u[:, 0]

    fitted(net, residual, inside=1)


class Listener(nn.Module):
    """How much a recording of a bird, with two ears, sounds like one from the wood."""

    def __init__(self):
        super().__init__()
        self.ears, self.score = nn.Conv1d(2, 6, 3, stride=2), nn.Linear(6 * 5, 1)

    def forward(self, song):
        return self.score(nn.functional.leaky_relu(self.ears(song), 0.2).flatten(1))


def judged(listener, penalty, laps=3):
    """The listener's steps, with a penalty on its slope between what is heard and what is made up."""
    optimizer = torch.optim.Adam(listener.parameters(), lr=1e-3)
    for _ in range(laps):
        heard, made_up = torch.randn(6, 2, 12), torch.rand(6, 2, 12)
        share = torch.rand(6, 1, 1)
        between = (share * heard + (1 - share) * made_up).requires_grad_(True)
        loss = listener(made_up).mean() - listener(heard).mean() + 10 * penalty(between)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("penalty_of_each_point")
def cd_slope_of_each_moment():
    """Zeleni9/pytorch-wgan#40, for sounds: a norm at each moment, of which there are twelve."""
    listener = Listener()

    def penalty(between):
        score = listener(between)
        slope = autograd.grad(score, between, torch.ones_like(score), create_graph=True)[0]
        return ((slope.norm(2, dim=1) - 1) ** 2).mean()  # culprit

    judged(listener, penalty)


@program("penalty_of_each_point")
def cd_slope_of_each_ear_written_out():
    """The norm by hand, of a sum of scores, and only what is too steep."""
    listener = Listener()

    def penalty(between):
        (slope,) = autograd.grad(listener(between).sum(), between, create_graph=True)
        steep = slope.square().sum(dim=2)  # culprit
        return torch.relu((steep + 1e-12).sqrt() - 0.01).square().mean()

    judged(listener, penalty)


@program()
def cd_legal_slope_of_a_whole_song():
    """Both axes, at once or flattened before; and a penalty without a bound, which is the same either way."""
    listener = Listener()

    def penalty(between):
        (slope,) = autograd.grad(listener(between).sum(), between, create_graph=True)
        flat = (slope.reshape(len(slope), -1).norm(2, dim=1) - 1).square().mean()
        whole = (slope.norm(2, dim=(1, 2)) - 1).square().mean()
        return flat + whole + 0.1 * slope.square().sum(dim=1).mean()

    judged(listener, penalty)


@program()
def cd_legal_slope_of_a_distance_at_each_point():
    """A distance has a slope of 1 everywhere: each of a cloud's points has one of its own."""
    net = field(3)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(3):
        clouds = torch.rand(4, 5, 3).requires_grad_(True)
        far = net(clouds)
        (slope,) = autograd.grad(far.sum(), clouds, create_graph=True)
        loss = (slope.norm(dim=-1) - 1).square().mean() + far.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
