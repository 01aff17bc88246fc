"""Contract tests: what a plugin of each role must keep to, as plain functions.

Each takes the factory and a configuration, the two that the plugin registers, and raises
``AssertionError`` with one line that says what is violated. Any test runner will do::

    from whale_core.testing.contracts import check_scheduler

    def test_contract():
        check_scheduler(MyScheduler, Config(epochs=0.1))

They run the real parts around the plugin: jail, rollout executor, run folder.
"""

from __future__ import annotations

from whale_core.testing.contracts.domain import check_domain
from whale_core.testing.contracts.endpoint import check_endpoint
from whale_core.testing.contracts.engine import check_engine
from whale_core.testing.contracts.harness_search import check_harness_search
from whale_core.testing.contracts.model_update import check_model_update
from whale_core.testing.contracts.proposer import check_proposer
from whale_core.testing.contracts.registrations import check_registrations
from whale_core.testing.contracts.scheduler import check_scheduler
from whale_core.testing.contracts.verifier import check_verifier

__all__ = [
    "check_domain",
    "check_endpoint",
    "check_engine",
    "check_harness_search",
    "check_model_update",
    "check_proposer",
    "check_registrations",
    "check_scheduler",
    "check_verifier",
]
