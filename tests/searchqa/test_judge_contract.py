"""The judge keeps the contract of verifiers, on episodes of its own domain, against a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_server_kit import KEY, MODEL, Endpoint
from judge_kit import USD, judging

from whale_core.plugins import Setup
from whale_core.testing.contracts import check_verifier
from whale_searchqa.config import Config
from whale_searchqa.domain import SearchQADomain
from whale_searchqa.judge.config import JudgeConfig
from whale_searchqa.judge.verifier import LlmJudge


def test_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_KEY", KEY)
    endpoint = judging(Endpoint())
    config = JudgeConfig(
        base_url=endpoint.url, model=MODEL, api_key_env="TOY_KEY", cache=str(tmp_path / "v.jsonl")
    )
    try:
        check_verifier(LlmJudge, config, SearchQADomain(Config(), Setup(seed=0)))
    finally:
        endpoint.close()
    prompts = [str(body["messages"]) for body in endpoint.bodies]
    assert prompts and len(prompts) == len(set(prompts))  # nothing was bought twice
    assert endpoint.usd(USD) > 0
