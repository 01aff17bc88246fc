"""Write the text part of a model that also sees as a model of its own.

    python -m whale_rsft.text_part Qwen/Qwen3.5-4B models/qwen3.5-4b-text

Agents here read and write text. Trained as it is published, such a model would come back from its
trainer without its vision part, and no server takes that for the same model.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from whale_core.errors import InputError, WhaleError


def check_text_model(folder: Path) -> None:
    """Check that the model in ``folder`` is one of text alone.

    Raises:
        InputError: it also sees; the message names the remedy.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if "vision_config" in config:
        raise InputError(
            f"the engine's model ({config.get('model_type')}) has a vision part, which is not "
            "trained: python -m whale_rsft.text_part MODEL FOLDER writes its text part, then "
            "engine.model=FOLDER"
        )


def write_text_part(model: str, folder: Path) -> None:
    """Write the text part of ``model`` (a folder or a hub id) and its tokenizer to ``folder``.

    Raises:
        InputError: the model cannot be read, is a text model, or has parameters that the text part
            lacks; or ``folder`` is there already.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from whale_rsft.places import quiet

    if folder.exists():
        raise InputError(f"{folder} is there already: choose another folder")
    try:
        with quiet():
            config = AutoConfig.from_pretrained(model)
            tokenizer = AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise InputError(f"{model} cannot be read ({_line(error)})") from error
    if not hasattr(config, "vision_config"):
        raise InputError(f"{model} has no vision part: it can be trained as it is")
    try:
        with quiet():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                model, dtype="auto", output_loading_info=True
            )
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{model}: no text part can be loaded ({_line(error)})") from error
    module, found = loaded
    if missing := sorted(found["missing_keys"]):
        raise InputError(f"{model}: {missing[0]} (of {len(missing)}) is missing from its text part")
    if hasattr(module.config, "vision_config"):
        raise InputError(f"{model}: this version of transformers knows no text part of it")
    with quiet():
        module.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def main(arguments: list[str] | None = None) -> int:
    """Do it and say so; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m whale_rsft.text_part", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("model", metavar="MODEL", help="a Hugging Face folder or a hub id")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the text part goes")
    options = parser.parse_args(arguments)
    try:
        write_text_part(options.model, options.folder)
    except WhaleError as error:
        print(f"whale: {error}", file=sys.stderr)
        return error.exit_code
    print(f"engine.model={options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
