"""A replica over HTTP: a few calls to a vLLM server, each with its answer checked."""

from __future__ import annotations

import functools
import json
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2

from whale_core.errors import EngineError
from whale_core.records import Json
from whale_vllm.replica import Configuration

WORDS = 300  # characters of a server's message that are passed on
CONNECTIONS = 1024  # the server queues; a limit here would only hide requests from it


class HTTPReplica:
    """A server at ``url``; implements ``Replica``. What ``hint`` returns is told in every error:
    where its log is, if it is known."""

    def __init__(self, url: str, timeout: float, hint: Callable[[], str] = str) -> None:
        """Connections belong to the running event loop."""
        self.name = f"vLLM server {url.rstrip('/')}"
        self._timeout = timeout
        self._hint = hint
        limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        self._client = httpx2.AsyncClient(
            base_url=url.rstrip("/"),
            timeout=timeout,
            limits=limits,
            verify=_trust(),
            trust_env=False,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def healthy(self) -> bool:
        """Say whether the server answers and calls itself healthy."""
        try:
            return (await self._client.get("/health", timeout=5.0)).status_code == 200
        except httpx2.HTTPError:
            return False

    async def version(self) -> str:
        """Return the version of vLLM that runs there."""
        return _text(await self._get("/version"), "version", self)

    async def longest(self) -> int:
        """Return how many tokens a context may have there. Raise ``EngineError`` if it is not
        told: then it is no vLLM server."""
        answer = await self._get("/v1/models")
        try:
            return int(answer["data"][0]["max_model_len"])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise self.error("/v1/models tells no max_model_len: is it vLLM?") from error

    async def tokenize(self, text: str) -> list[int]:
        """Return the ids that the server's own tokenizer makes of ``text``."""
        answer = await self._post("/tokenize", {"prompt": text, "add_special_tokens": False})
        return [int(index) for index in answer.get("tokens") or ()]

    async def complete(self, body: Mapping[str, Json]) -> Mapping[str, Any]:
        """Return the answer of ``/v1/completions``."""
        return await self._post("/v1/completions", body)

    async def weight_version(self) -> str:
        """Return the name of the weights that are served, as it was last set."""
        return _text(await self._get("/weight_info"), "weight_version", self)

    async def checksums(self) -> Mapping[str, str]:
        """Return a digest of each tensor that the server computes with."""
        answer = await self._post("/weight_checker", {"action": "checksum"})
        found = answer.get("checksums")
        if not isinstance(found, dict) or not found:
            raise self.error("/weight_checker tells no checksums")
        return {str(name): str(digest) for name, digest in found.items()}

    async def pause(self) -> None:
        """Let requests under way come to their end and begin no other."""
        await self._post("/pause?mode=wait", {})

    async def resume(self) -> None:
        """Begin requests again."""
        await self._post("/resume", {})

    async def reload(self, folder: Path) -> None:
        """Have the server read the weights in ``folder``."""
        await self._post(
            "/collective_rpc",
            {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}},
        )

    async def forget(self) -> None:
        """Drop the cached keys and values of all prompts."""
        answer = await self._post("/reset_prefix_cache", {})
        if answer.get("success") is not True:
            raise self.error("it did not reset its prefix cache")

    async def set_weight_version(self, version: str) -> None:
        """Name the weights that are served."""
        await self._post("/update_weight_version", {"new_version": version})

    async def configuration(self) -> Configuration:
        """Return what it was started with."""
        answer = await self._get("/server_info?config_format=json")
        try:
            told = answer["vllm_config"]["model_config"]
            return Configuration(
                model=str(told["model"]),
                dtype=str(told["dtype"]).removeprefix("torch."),
                sleeps=bool(told["enable_sleep_mode"]),
            )
        except (KeyError, TypeError) as error:
            raise self.error("/server_info tells no model_config: is it vLLM?") from error

    async def sleep(self) -> None:
        """Let requests under way come to their end, and free the memory of weights and cache."""
        await self._post("/sleep?level=2&mode=wait", {})

    async def wake(self) -> None:
        """Take the memory again; the weights must be loaded before anything is asked."""
        answer = await self._post("/wake_up", {})
        if answer.get("status", "awake") != "awake":
            raise self.error("/wake_up left it asleep")

    def error(self, problem: str) -> EngineError:
        """Return the error that this server has ``problem``."""
        return EngineError(f"{self.name}: {problem}{self._hint()}")

    async def _get(self, path: str) -> Mapping[str, Any]:
        return await self._asked("GET", path, None)

    async def _post(self, path: str, body: Mapping[str, Json]) -> Mapping[str, Any]:
        return await self._asked("POST", path, body)

    async def _asked(
        self, method: str, path: str, body: Mapping[str, Json] | None
    ) -> Mapping[str, Any]:
        """Return the JSON object of an answer. Raise ``EngineError`` for anything else."""
        where = path.partition("?")[0]
        try:
            reply = await self._client.request(method, path, json=body)
        except httpx2.TimeoutException as error:
            raise self.error(
                f"{where}: no answer within {self._timeout:g} s (engine.timeout)"
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self.error(f"{where}: {_line(error)}; does it still run?") from error
        if reply.status_code != 200:
            raise self.error(f"{where} answers {reply.status_code}: {_said(reply)}")
        if not reply.content:
            return {}
        try:
            answer = json.loads(reply.content)
        except (ValueError, RecursionError) as error:
            raise self.error(f"{where} answers no JSON: {reply.text[:60]!r}") from error
        if not isinstance(answer, dict):
            raise self.error(f"{where} answers no JSON object: {reply.text[:60]!r}")
        return answer


@functools.cache
def _trust() -> ssl.SSLContext:
    """Return the certificates that are trusted; reading them takes longer than a short request."""
    return ssl.create_default_context()


def _text(answer: Mapping[str, Any], key: str, replica: HTTPReplica) -> str:
    value = answer.get(key)
    if not isinstance(value, str):
        raise replica.error(f"it tells no {key}")
    return value


def _said(reply: httpx2.Response) -> str:
    """Return a server's own words for an error, on one line."""
    try:
        body = json.loads(reply.content)
        told = body.get("error", body.get("detail", body)) if isinstance(body, dict) else body
        text = told.get("message", told) if isinstance(told, dict) else told
    except (ValueError, RecursionError):
        text = reply.text
    return " ".join(str(text).split())[:WORDS] or reply.reason_phrase


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:WORDS] or type(error).__name__
