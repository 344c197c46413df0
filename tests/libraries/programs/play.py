"""Stable-Baselines3: agents that learn on gymnasium's small worlds."""

from __future__ import annotations

from typing import Any

import torch

from tests.libraries.table import Built, program

NARROW = {"net_arch": [16]}


def learned(agent: Any, steps: int) -> Built:
    """The policy, after so many steps in its world."""

    def run() -> Any:
        agent.learn(total_timesteps=steps)
        told, _ = agent.predict(torch.zeros(agent.observation_space.shape).numpy(), deterministic=True)
        return told

    return agent.policy, run


@program("stable_baselines3", "gymnasium")
def ppo() -> Built:
    from stable_baselines3 import PPO

    agent = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=2, seed=0, policy_kwargs=NARROW)
    return learned(agent, 128)


@program("stable_baselines3", "gymnasium")
def a2c() -> Built:
    from stable_baselines3 import A2C

    return learned(A2C("MlpPolicy", "CartPole-v1", n_steps=8, seed=0, policy_kwargs=NARROW), 48)


@program("stable_baselines3", "gymnasium")
def dqn() -> Built:
    from stable_baselines3 import DQN

    options: dict[str, Any] = {
        "learning_starts": 20,
        "buffer_size": 200,
        "batch_size": 16,
        "target_update_interval": 20,
    }
    return learned(DQN("MlpPolicy", "CartPole-v1", **options, seed=0, policy_kwargs=NARROW), 80)


@program("stable_baselines3", "gymnasium")
def sac() -> Built:
    from stable_baselines3 import SAC

    options: dict[str, Any] = {"learning_starts": 10, "buffer_size": 200, "batch_size": 16}
    return learned(SAC("MlpPolicy", "Pendulum-v1", **options, seed=0, policy_kwargs=NARROW), 20)
