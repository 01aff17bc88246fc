"""What a recording must be to count as a discovery: whole, clean, and not out of the catalogue."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from attrs import define, field

from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.roles import Domain
from whale_metaharness.config import Config
from whale_metaharness.experience import has_edit
from whale_metaharness.gates import SOURCE_GATES, Rules
from whale_metaharness.leak import private_texts
from whale_metaharness.members import MemberError, harness_class, members, replace_members
from whale_metaharness.normalise import normalised_hash, parse_program
from whale_metaharness.recording import read_recording, read_round
from whale_metaharness.spaces import space_of

LEAST_ROUNDS = 5


def recording_problems(folder: Path, domain: Domain) -> list[str]:
    """Return what is wrong with the recording in ``folder``, one line each; nothing if it is sound.

    Every source must be what ``recording.json`` says and pass the gates that need no rollout; there
    must be ``LEAST_ROUNDS`` rounds, each with a candidate; a parent is the first harness or of an
    earlier round; and no candidate may be what people wrote before: a catalogue edit, or a mix of
    members that harnesses of the domain, catalogue edits and earlier candidates have (compared as
    syntax trees, without comments and docstrings).
    """
    try:
        recording = read_recording(folder)
        rounds = [
            read_round(folder, recording, number)
            for number in range(1, len(recording.iterations) + 1)
        ]
    except InputError as error:
        return [str(error)]
    name = recording.base_harness or domain.base_harness
    if recording.domain != domain.name or name not in domain.harnesses:
        harness = f"{recording.domain}/{name}"
        return [f"{folder}: recorded for {harness}, which domain {domain.name} does not have"]
    problems = []
    if len(rounds) < LEAST_ROUNDS:
        problems.append(f"{folder}: {len(rounds)} rounds; a recording has {LEAST_ROUNDS} or more")
    base = domain.harnesses[name]
    known = {normalised_hash(source): own for own, source in domain.harnesses.items()}
    private = private_texts(domain, base)
    sources = {content_hash(base.encode())}  # of all that came before, by content hash
    material = Material()
    for source in domain.harnesses.values():
        material.add(source)
    for edit in domain.catalogue:
        material.add_members(edit.members)
        known.setdefault(_with_edit(base, edit.members) or "", f"catalogue edit {edit.name}")
    for number, candidates in enumerate(rounds, 1):
        if not candidates:
            problems.append(f"{folder}: round {number} has no candidate")
        if not recording.iterations[number - 1].reads:
            problems.append(f"{folder}: round {number} does not tell what was read before it")
        told = recording.iterations[number - 1]
        for slot, candidate in candidates.items():
            where = f"{folder}: round {number}, {slot}"
            parent = told.candidates[slot].parent_id
            if parent is not None and parent not in sources:
                problems.append(f"{where}: its parent {parent} is in no earlier round")
            rules = Rules(Config().max_source_bytes, space_of("full"), base, known, private)
            refused = _refused(candidate.source, rules)
            if refused:
                problems.append(f"{where}: {refused}")
                continue
            try:
                mixed = material.makes(candidate.source)
            except (MemberError, RecursionError) as error:
                reason = str(error) if isinstance(error, MemberError) else "nested too deeply"
                problems.append(f"{where}: its members cannot be told apart: {reason}")
                continue
            if mixed:
                named = [e.name for e in domain.catalogue if has_edit(candidate.source, e)]
                has = f" (it has {', '.join(named)})" if named else ""
                problems.append(f"{where}: a mix of what was there before{has}: no discovery")
            known[normalised_hash(candidate.source)] = f"round {number}, {slot}"
            material.add(candidate.source)
        sources |= {each.harness_id for each in told.candidates.values()}
        sources |= {each.harness_id for each in told.left_out.values()}
    return problems


@define
class Material:
    """The members and the rests of files that a mix could be made of, as normalised hashes."""

    members: set[tuple[str, str]] = field(factory=set)
    rests: set[str] = field(factory=set)

    def add(self, source: str) -> None:
        """Add all of a harness."""
        own, rest = _taken_apart(source)
        self.members |= own
        self.rests.add(rest)

    def add_members(self, texts: Mapping[str, str]) -> None:
        """Add the members of an edit."""
        self.members |= {(name, normalised_hash(text)) for name, text in texts.items()}

    def makes(self, source: str) -> bool:
        """Say whether each member of a harness, and the rest of its file, is among the material."""
        own, rest = _taken_apart(source)
        return own <= self.members and rest in self.rests


def _taken_apart(source: str) -> tuple[set[tuple[str, str]], str]:
    """Return the hashes of a harness's members by name, and of its file without them."""
    own = members(source)
    module = parse_program(source)
    for statement in module.body:
        if isinstance(statement, ast.ClassDef) and statement.name == harness_class(source).name:
            statement.body = list(_without(statement.body, own))
    hashes = {(name, normalised_hash(member.text)) for name, member in own.items()}
    return hashes, normalised_hash(ast.unparse(module))


def _without(body: Sequence[ast.stmt], names: Iterable[str]) -> Iterable[ast.stmt]:
    """Yield the statements of a class that are none of its plain members; at least ``pass``."""
    left = [statement for statement in body if not _defines(statement, set(names))]
    return left or [ast.Pass()]


def _defines(statement: ast.stmt, names: set[str]) -> bool:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name in names
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name in names
    return False


def _with_edit(base: str, texts: Mapping[str, str]) -> str | None:
    """Return the normalised hash of ``base`` with an edit, None where it does not fit."""
    try:
        return normalised_hash(replace_members(base, texts))
    except MemberError:
        return None


def _refused(source: str, rules: Rules) -> str:
    """Return which gate refuses a source and why, or nothing."""
    for gate, refuse in SOURCE_GATES.items():
        reason = refuse(source, rules)
        if reason is not None:
            return f"refused by the gate {gate!r}: {reason}"
    return ""
