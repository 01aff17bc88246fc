"""The text part of a model that also sees: the same logits, and nothing else of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from whale_core.errors import InputError
from whale_rsft.places import load_module
from whale_rsft.text_part import main
from whale_transformers.tiny import tiny_folder

TEXT = {
    **{"vocab_size": 300, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4},
    **{"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32},
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 2},
    **{"linear_key_head_dim": 32, "linear_value_head_dim": 32},
}
VISION = {
    **{"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2},
    **{"out_hidden_size": 64, "num_position_embeddings": 16},
}


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of the kind of Qwen3.5, as it is published: with a vision part."""
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    folder = tmp_path_factory.mktemp("model") / "seeing"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module: Any = Qwen3_5ForConditionalGeneration(
            Qwen3_5Config(text_config=TEXT, vision_config=VISION)
        )
    module.save_pretrained(folder)
    for file in tiny_folder().glob("tokenizer*"):
        shutil.copy(file, folder)
    return folder


def test_it_is_the_same_model_of_text(
    seeing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoModelForImageTextToText, AutoTokenizer, Qwen3_5ForCausalLM

    written = tmp_path / "text"
    assert main([str(seeing), str(written)]) == 0
    assert capsys.readouterr().out == f"engine.model={written}\n"
    config = json.loads((written / "config.json").read_text())
    assert config["architectures"] == ["Qwen3_5ForCausalLM"] and "vision_config" not in config
    ids = torch.arange(3, 60)[None]
    whole: Any = AutoModelForImageTextToText.from_pretrained(seeing)
    part: Any = Qwen3_5ForCausalLM.from_pretrained(written)
    with torch.inference_mode():
        torch.testing.assert_close(part(input_ids=ids).logits, whole(input_ids=ids).logits)
    text = "Ünïcödé 12\n"
    before, after = (AutoTokenizer.from_pretrained(each) for each in (seeing, written))
    assert before(text)["input_ids"] == after(text)["input_ids"]


def test_what_cannot_be_done_is_one_line(
    seeing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for model, folder, said in (
        (str(seeing), there, "is there already"),
        (str(tiny_folder()), tmp_path / "new", "has no vision part"),
        (str(tmp_path / "none"), tmp_path / "new", "cannot be read"),
    ):
        assert main([model, str(folder)]) == 2
        error = capsys.readouterr().err
        assert said in error and len(error.splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_a_trainer_names_the_command(seeing: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"python -m whale_rsft\.text_part"):
        load_module(seeing, torch.device("cpu"))
    assert main([str(seeing), str(tmp_path / "text")]) == 0
    load_module(tmp_path / "text", torch.device("cpu"))
