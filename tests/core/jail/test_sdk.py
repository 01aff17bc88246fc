"""The parts of the SDK that are plain functions."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale_harness import Reply, fill
from whale_harness._jail import syscalls


def test_fill_replaces_given_slots_once() -> None:
    template = 'Q: {question} A: {answer} {other} {"json": {}} {question}'
    filled = fill(template, question="{answer}", answer="{question}", template="x")
    assert filled == 'Q: {answer} A: {question} {other} {"json": {}} {answer}'
    assert fill("{a}{ab}", a=1, ab=2) == "12"
    assert fill("{template}", template="t") == "t"
    assert fill("{a}") == "{a}"


@given(st.text(), st.text(), st.text())
def test_fill_never_expands_values(before: str, value: str, after: str) -> None:
    slot = "{a_slot}"
    if slot not in before + after:
        assert fill(before + slot + after, a_slot=value) == before + value + after


def test_a_reply_is_an_assistant_message_with_its_handle() -> None:
    reply = Reply("text", "end", 3)
    assert reply.message() == {"role": "assistant", "content": "text", "call": 3}
    with pytest.raises(AttributeError):
        reply.text = "other"  # type: ignore[misc]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_decides_as_its_tables_say(machine: str) -> None:
    program = syscalls.filter_program(machine)
    column, audit = syscalls.ARCHITECTURES[machine]
    allowed = {numbers[column] for numbers in syscalls.ALLOWED.values()}
    conditional = {entry[0][column] for entry in syscalls.UNLESS_BITS.values()}
    conditional |= {entry[0][column] for entry in syscalls.ONLY_WITH_BITS.values()}
    conditional |= {entry[0][column] for entry in syscalls.ONLY_VALUES.values()}
    for number in set(range(512)) - conditional:
        expected = syscalls._ALLOW if number in allowed else syscalls._REFUSE
        assert _verdict(program, audit, number) == expected
    assert _verdict(program, audit ^ 1, 0) == syscalls._KILL
    openat, fcntl = (56, 25) if machine == "aarch64" else (257, 72)
    assert _verdict(program, audit, openat, 0, 0, 0o2000000) == syscalls._ALLOW
    for flags in (0o1, 0o2, 0o100, 0o1000, 0o2000001):
        assert _verdict(program, audit, openat, 0, 0, flags) == syscalls._REFUSE
    assert _verdict(program, audit, fcntl, 0, 1) == syscalls._ALLOW
    assert _verdict(program, audit, fcntl, 0, 4) == syscalls._REFUSE
    futex, clock, mmap = (98, 113, 222) if machine == "aarch64" else (202, 228, 9)
    assert _verdict(program, audit, futex, 0, 128) == syscalls._ALLOW
    assert _verdict(program, audit, futex, 0, 1) == syscalls._REFUSE
    assert _verdict(program, audit, clock, 1) == syscalls._ALLOW
    assert _verdict(program, audit, clock, 0xFFFFFFFA) == syscalls._REFUSE
    assert _verdict(program, audit, mmap, 0, 0, 0, 0x22) == syscalls._ALLOW
    assert _verdict(program, audit, mmap, 0, 0, 0, 0x40022) == syscalls._REFUSE


def _verdict(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Interpret the filter for one system call."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("=IIQ6Q", number, audit, 0, *padded)
    instructions = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = instructions[at]
        at += 1
        if code == syscalls._LOAD:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif code == syscalls._RETURN:
            return int(value)
        else:
            hit = accumulator == value if code == syscalls._JUMP_EQUAL else accumulator & value
            at += if_true if hit else if_false


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(OSError, match="not of riscv64"):
        syscalls.filter_program("riscv64")
