import numpy as np
import pytest
import torch
from attrs import evolve
from whale_core.keys import DrawKey
from whale_core.plugins import Setup
from whale_core.records import Example, Outcome, Row, Trajectory, Verdict
from whale_core.roles import Group, RolloutEngine
from whale_core.testing.contracts import check_model_update, check_registrations

from whale_example_policy_gradient import plugin
from whale_example_policy_gradient.config import Config
from whale_example_policy_gradient.update import ClippedPolicyGradient, Weighted, weighted

SETTINGS = Config(prompts=4, group_size=4, lr=1e-2)


def tiny_engine() -> RolloutEngine:
    pytest.importorskip("whale_transformers", reason="pip install whale-transformers")
    from whale_transformers.config import Config as EngineConfig
    from whale_transformers.engine import TransformersEngine

    config = EngineConfig(model="tiny-random", dtype="float32", threads=1, slots=8)
    return TransformersEngine(config, Setup(seed=0))


def test_contract() -> None:
    check_registrations(plugin)
    check_model_update(ClippedPolicyGradient, SETTINGS, tiny_engine)


def group(*rewards: float | None) -> Group:
    """Return a prompt's rollouts; None: not scored."""
    key = DrawKey(0, "train", 1, 1, "e", 0)
    row = Row(np.array([1, 2], np.int32), np.array([0, 1], np.uint8), np.zeros(2, np.float32), 0)
    rollouts = tuple(
        Trajectory(
            "e",
            "h",
            "w",
            key,
            (),
            (),
            None,
            {},
            Outcome.NOT_SCORED if reward is None else Outcome.FAIL,
            verdict=None if reward is None else Verdict(reward),
        )
        for reward in rewards
    )
    return Group(Example("e", {}, "g"), rollouts, ((row,),) * len(rewards))


def test_advantages_compare_with_the_group_and_failures_count() -> None:
    found = [each.advantage for each in weighted(group(1.0, 0.0, 0.0, None, 0.0))]
    assert found == pytest.approx([3**0.5, -(3**-0.5), -(3**-0.5), -(3**-0.5)], abs=1e-4)
    assert weighted(group(1.0, 1.0)) == [] == weighted(group(0.0, None))


class Fixed(torch.nn.Module):
    """A model whose next-token probabilities are the same everywhere."""

    def __init__(self, probabilities: list[float]) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor(probabilities).log())

    def forward(self, input_ids: torch.Tensor, use_cache: bool) -> object:
        class Output:
            logits = self.logits.expand(1, input_ids.shape[1], -1)

        return Output()


@pytest.mark.parametrize(
    ("advantage", "sampled_with", "loss"),
    [
        (1.0, 0.5, -1.0),  # on-policy: the ratio is 1
        (1.0, 0.25, -1.2),  # twice as likely now: no more than 1 + 0.2 is rewarded
        (-1.0, 0.25, 2.0),  # and got more likely although it was bad: not bounded
        (-1.0, 1.0, 0.8),  # got less likely already: bounded
    ],
)
def test_the_ratio_is_clipped_against_the_recorded_probability(
    advantage: float, sampled_with: float, loss: float
) -> None:
    row = Row(
        np.array([0, 1], np.int32),
        np.array([0, 1], np.uint8),
        np.log(np.array([1.0, sampled_with], np.float32)),
        0,
    )
    update = ClippedPolicyGradient(evolve(SETTINGS), Setup(seed=0))
    losses, _, _ = update._token_losses(Fixed([0.25, 0.5, 0.25]), Weighted(row, advantage))
    assert losses.tolist() == pytest.approx([loss], abs=1e-5)
