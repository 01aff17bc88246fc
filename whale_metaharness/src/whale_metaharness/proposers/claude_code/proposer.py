"""The proposer ``claude-code``: the command-line agent works on the workspace in a jail.

Its only way out is a proxy that holds the key; ``docs/proposers.md`` says what each layer stops.
"""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import tempfile
from pathlib import Path

from attrs import asdict

from whale_core.chat_completions import key_from
from whale_core.errors import InputError
from whale_core.jail.kinds import bubblewrap
from whale_core.plugins import Setup
from whale_core.records import Json, Spent
from whale_core.roles import Proposal, Workspace
from whale_metaharness.outbox import read_outbox
from whale_metaharness.proposers.anthropic import listed_prices
from whale_metaharness.proposers.claude_code import jail
from whale_metaharness.proposers.claude_code.account import Account
from whale_metaharness.proposers.claude_code.probe import ask_for_a_word
from whale_metaharness.proposers.claude_code.proxy import Allowance, Proxy
from whale_metaharness.proposers.claude_code.session import Ended, run_session
from whale_metaharness.proposers.settings import ClaudeCodeConfig
from whale_metaharness.proposers.transcript import spent_by_others, transcript_path

PROMPT = """\
This folder is your workspace. Read instructions.md and brief.md first and do what they ask, for one
iteration: {count} candidates in outbox/, each as outbox/<name>/harness.py with
outbox/<name>/metadata.json (parent, axis, hypothesis, changes), and the report. Then stop."""
CALLS = "calls.jsonl"
TOOLS = "Bash,Edit,Glob,Grep,Read,Write"  # as published: no sub-agents, no web


class ClaudeCodeProposer:
    """Runs one session of the agent for each iteration.

    A session that was cut short with its run is begun again; its earlier calls cost what they cost.
    """

    note = "Candidate harnesses were written by a coding agent (claude-code) from the archive."
    writes_code = True
    validates = False
    priced = True
    notes = ()

    def __init__(self, config: ClaudeCodeConfig, setup: Setup) -> None:
        found = shutil.which(config.program)
        if found is None:
            raise InputError(
                f"proposer.program={config.program}: no such program; install the agent (npm "
                "install -g @anthropic-ai/claude-code), or give its path"
            )
        if not config.api_key_env:
            raise InputError(
                "proposer claude-code needs an API key: name its environment variable in "
                "proposer.api_key_env (a subscription's login cannot be used)"
            )
        prices = config.prices or listed_prices(config.model)
        if prices is None:
            raise InputError(
                f"proposer.model={config.model}: its prices are not known; set proposer.prices, "
                "since the proxy ends a session at a cap in USD"
            )
        bubblewrap()
        self._prices = prices
        self._program = Path(found).resolve()
        self._config = config
        self._key = key_from(config.api_key_env, "proposer")

    async def probe(self) -> Spent:
        """Have the model say a word and return what that cost.

        Raises:
            InputError: it cannot be reached, or refuses key or model.
        """
        return await asyncio.to_thread(ask_for_a_word, self._config, self._key, self._prices)

    def paid(self, workspace: Workspace) -> Spent:
        """Return what the session on a workspace has paid so far."""
        return self._spent_in(session_folder(workspace) / CALLS)

    def _spent_in(self, path: Path) -> Spent:
        return Account.open(path, self._prices).spent()

    async def propose(self, workspace: Workspace) -> Proposal:
        """Run a session on the workspace and return what it left in the outbox."""
        folder = session_folder(workspace)
        folder.mkdir(parents=True, exist_ok=True)
        account = Account.open(folder / CALLS, self._prices)
        left = self._left(account)
        if left <= 0:
            return Proposal((), account.spent(), "the run's sessions have spent run_usd")
        ended = await self._session(workspace, folder, account, left)
        made = read_outbox(workspace)
        spent = account.spent()
        about = {"status": ended.status, "seconds": round(ended.seconds, 3), "spent": asdict(spent)}
        _write_json(folder / "session.json", {**about, "agent": ended.account})
        return Proposal(made, spent, "" if made else self._why(ended, folder))

    async def _session(
        self, workspace: Workspace, folder: Path, account: Account, usd: float
    ) -> Ended:
        """Run the agent with a proxy of its own, which may spend up to ``usd``."""
        config = self._config
        allowance = Allowance(config.base_url, self._key, config.model, config.turns, usd)
        with tempfile.TemporaryDirectory(prefix="whale-agent-") as name:
            scratch = Path(name)
            places = jail.Places(workspace.root, workspace.outbox, scratch / "proxy.sock", scratch)
            arguments = _arguments(config.model, workspace.count)
            command = jail.command(self._program, places, arguments)
            proxy = Proxy(places.socket, allowance, account)
            proxy.start()
            try:
                environment = dict(jail.environment(config.model))
                return await run_session(command, environment, folder, config.session_seconds)
            finally:
                await asyncio.to_thread(proxy.stop)

    def _left(self, account: Account) -> float:
        """Return the USD at which this session must end, what it had spent before included."""
        caps = [self._config.iteration_usd or math.inf]
        if self._config.run_usd:
            sessions = account.path.parent.parent
            others = spent_by_others(account.path, sessions, f"*/{CALLS}", self._spent_in)
            caps.append(self._config.run_usd - others.usd)
        return min(caps)

    def _why(self, ended: Ended, folder: Path) -> str:
        """Return why there is no candidate, in one line."""
        if ended.status is None:
            return f"no candidate within {self._config.session_seconds:g} s (session_seconds)"
        if isinstance(ended.account, dict) and ended.account.get("is_error"):
            said = str(ended.account.get("result") or ended.account.get("subtype"))
        elif ended.status:
            lines = (folder / "stderr.txt").read_text(errors="replace").split("\n")
            said = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        else:
            return "the agent left no candidate in the outbox"
        return " ".join(f"the agent ended with status {ended.status}: {said}".split())[:300]


def session_folder(workspace: Workspace) -> Path:
    """Return where a session's files are: beside the transcripts of other proposers."""
    return transcript_path(workspace).with_suffix("")


def _arguments(model: str, count: int) -> list[str]:
    """Return the agent's command line: one session without questions, told as JSON lines."""
    return [
        *("--print", PROMPT.format(count=count)),
        *("--model", model),
        *("--output-format", "stream-json", "--verbose"),
        "--dangerously-skip-permissions",  # the jail decides what it may do
        *("--setting-sources", ""),
        "--strict-mcp-config",
        "--disable-slash-commands",
        *("--tools", TOOLS),
    ]


def _write_json(path: Path, data: Json) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
