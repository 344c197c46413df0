"""More than one thread: each with a record of its own, or none, or one that outlives the block."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from tests.data.transparency import block, whole


def step(number, device):
    x = torch.full((3,), float(number), device=device, requires_grad=True)
    for _ in range(3):
        y = (x.sin() * x).exp()
        y.sum().backward()
    return x.grad


def recorded_step(number, device):
    with block():
        return step(number, device)


@whole
def w_threads_without_a_record():
    device = torch.get_default_device()
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(step, range(4), [device] * 4)), step(9, device)


@whole
def w_threads_each_with_its_record():
    device = torch.get_default_device()
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(recorded_step, range(4), [device] * 4))


@whole
def w_thread_that_outlives_the_block():
    device, begun, go_on = torch.get_default_device(), threading.Event(), threading.Event()
    x = torch.ones(3, device=device, requires_grad=True)
    results = queue.Queue()

    def late():
        y = x.exp()
        begun.set()
        go_on.wait(10)
        y.sum().backward()
        results.put(x.grad)

    thread = threading.Thread(target=late)
    with block():
        thread.start()
        begun.wait(10)
        before = (x * 2).sum()
    go_on.set()
    thread.join()
    return before, results.get()


@whole
def w_record_that_outlives_the_block_of_another():
    device, inside, go_on = torch.get_default_device(), threading.Event(), threading.Event()
    results = queue.Queue()

    def late():
        with block():
            x = torch.ones(3, device=device, requires_grad=True)
            y = x.exp()
            inside.set()
            go_on.wait(10)
            y.sum().backward()
            results.put(x.grad)

    thread = threading.Thread(target=late)
    with block():
        thread.start()
        inside.wait(10)
        step(2, device)
    go_on.set()
    thread.join()
    return results.get()


@whole
def w_graph_made_here_and_run_there():
    x = torch.randn(3, requires_grad=True)
    loss = (x.exp() * x).sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    return x.grad


@whole
def w_graph_made_there_and_run_here():
    x = torch.randn(3, requires_grad=True)
    with ThreadPoolExecutor(1) as pool:
        loss = pool.submit(lambda: (x.exp() * x).sum()).result()
    loss.backward()
    return x.grad


@whole
def w_two_threads_run_one_graph():
    x = torch.zeros(4, requires_grad=True)  # whole numbers: the sum is the same in every order
    shared = x.exp()
    losses = [(shared * k).sum() for k in (1.0, 2.0)]
    together = threading.Barrier(2)

    def run(loss):
        for _ in range(20):
            together.wait(10)
            loss.backward(retain_graph=True)

    threads = [threading.Thread(target=run, args=(losses[1],))]
    for thread in threads:
        thread.start()
    run(losses[0])
    for thread in threads:
        thread.join()
    return x.grad


@whole
def w_error_in_a_thread():
    device, said = torch.get_default_device(), []

    def broken():
        try:
            with block():
                x = torch.ones(3, device=device, requires_grad=True)
                y = x.exp()
                y.add_(1)
                y.sum().backward()
        except RuntimeError as error:
            said.append(str(error))

    thread = threading.Thread(target=broken)
    thread.start()
    thread.join()
    return said


@whole
def w_backward_in_one_thread_only():
    x = torch.randn(3, requires_grad=True)
    with torch.autograd.set_multithreading_enabled(False):
        x.exp().sum().backward()
    return x.grad
