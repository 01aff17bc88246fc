"""The names of OpenRLHF and DeepSpeed that the adapter relies on are there, and take what it gives.

What they compute is measured (measure_gradients.py).
"""

from __future__ import annotations

import inspect
from importlib.metadata import version

import pytest

from whale_rsft.openrlhf.pin import OPENRLHF

# The warnings are those packages' own.
pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module", autouse=True)
def shims() -> None:
    import cpu_shims

    cpu_shims.install()


def takes(function: object, *names: str) -> bool:
    return set(names) <= set(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_the_version_is_the_pinned_one() -> None:
    assert version("openrlhf") == OPENRLHF


def test_the_actor_and_its_loss() -> None:
    from openrlhf.models import Actor, SFTLoss
    from openrlhf.models.utils import log_probs_from_logits

    wanted = ("attn_implementation", "param_dtype", "ds_config", "packing_samples", "temperature")
    assert takes(Actor.__init__, *wanted)
    assert takes(Actor.forward, "attention_mask", "return_output", "return_logprobs", "mm_inputs")
    assert takes(SFTLoss.forward, "dp_size", "batch_num_tokens")
    assert takes(log_probs_from_logits, "logits", "labels")


def test_the_strategy() -> None:
    from openrlhf.utils.deepspeed import DeepspeedStrategy

    assert takes(DeepspeedStrategy.__init__, "seed", "max_norm", "zero_stage", "args")
    assert takes(DeepspeedStrategy.get_ds_train_config, "optim_dict", "max_norm")
    assert takes(DeepspeedStrategy._get_model_parameters, "model", "optim", "weight_decay")
    assert takes(DeepspeedStrategy.save_model, "model", "tokenizer", "output_dir")
    source = inspect.getsource(DeepspeedStrategy._ds_init_train_model)
    assert "self.get_ds_train_config(" in source, "the adapter's settings would be passed over"
    assert "self._get_model_parameters(" in source


def test_the_actors() -> None:
    from openrlhf.trainer.ray.launcher import BaseModelActor

    made_with = list(inspect.signature(BaseModelActor.__init__).parameters)  # Ray may add one
    assert made_with[:5] == ["self", "world_size", "rank", "master_addr", "master_port"]
    assert takes(BaseModelActor._setup_distributed, "strategy")
    source = inspect.getsource(BaseModelActor.get_master_addr_port)
    assert "return self._master_addr, self._master_port" in source


def test_deepspeed_sums_over_the_callers_micro_batches() -> None:
    from deepspeed.runtime.config import get_managed_gradient_accumulation
    from deepspeed.runtime.engine import DeepSpeedEngine
    from deepspeed.runtime.zero import stage3

    from whale_rsft.config import Config
    from whale_rsft.openrlhf.adapter import Strategy
    from whale_rsft.openrlhf.options import Options

    config = Strategy(Options.of(Config(), 2, 0)).get_ds_train_config()
    assert get_managed_gradient_accumulation(config) is False
    assert config["train_micro_batch_size_per_gpu"] == config["gradient_accumulation_steps"] == 1
    assert callable(DeepSpeedEngine.was_step_applied)
    source = inspect.getsource(stage3)  # the method is wrapped without a trace
    method = source[source.index("def _overflow_check_and_loss_scale_update") :][:300]
    assert "if self.dtype == torch.float16:" in method, "stage 3 now looks itself: adapter.apply"
    assert callable(stage3.DeepSpeedZeroOptimizer_Stage3.check_overflow)
