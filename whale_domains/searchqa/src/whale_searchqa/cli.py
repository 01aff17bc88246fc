"""Make an index of a corpus, search it, serve it: the command ``whale-searchqa``.

Nothing heavy is imported here, so ``--help`` answers at once. Exit codes: 0 done; 2 bad input; 130
interrupted (``index`` goes on from there when it is called again); 1 a defect.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from whale_core.cli.text import count, plural, printable
from whale_core.errors import InputError, WhaleError

EXAMPLES = {
    "index": """\
examples:
  whale-searchqa index corpus.jsonl --out wiki-bm25
  whale-searchqa index corpus.jsonl.gz --out wiki-e5 --kind dense --encoder intfloat/e5-base-v2 \\
      --query-prefix 'query: ' --passage-prefix 'passage: '
  whale-searchqa index corpus.jsonl --out wiki-mini --kind dense --encoder ./all-MiniLM-L6-v2 \\
      --factory hnsw

A corpus is JSON lines {"id": "7", "contents": "\\"Title\\"\\ntext"}, plain or .gz. When the
command is stopped, even killed, the same command goes on: bm25 from the start, dense from the last
4096 passages. The folder appears under its name when it is complete.
""",
    "search": """\
examples:
  whale-searchqa search wiki-bm25 'Who painted the Mona Lisa?'
  whale-searchqa search wiki-bm25 'Mona Lisa' --topk 3 --json
""",
    "serve": """\
examples:
  whale-searchqa serve wiki-bm25
  whale-searchqa serve wiki-e5 --host 0.0.0.0 --port 8001 --device cuda
  whale-run --plugin-set default domain=searchqa domain.questions=mine.jsonl \\
      domain.retriever.kind=http domain.retriever.url=http://127.0.0.1:8000/retrieve

POST /retrieve {"queries": ["…"], "topk": 3, "return_scores": true}; GET /health.
""",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``whale-searchqa`` and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        {"index": _index, "search": _search, "serve": _serve}[options.command](options)
    except BrokenPipeError:  # the reader of our output went away: there is nobody to tell
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _report("interrupted", 130)
    except WhaleError as error:
        return _report(str(error), error.exit_code)
    except OSError as error:
        return _report(f"{error.filename or 'output'}: {error.strerror}", InputError.exit_code)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="whale-searchqa",
        description="Make an index of a corpus, search it, serve it.",
        epilog="whale-searchqa COMMAND --help has examples.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def command(name: str, summary: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=EXAMPLES[name],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    index = command("index", "make an index folder of a corpus")
    index.add_argument("corpus", type=Path, metavar="CORPUS", help="the corpus file")
    index.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to make")
    index.add_argument("--kind", choices=("bm25", "dense"), default="bm25")
    index.add_argument("--encoder", metavar="E", help="dense: folder or hub name")
    index.add_argument("--factory", choices=("flat", "ivf", "hnsw"), help="dense: flat if not said")
    index.add_argument(
        "--pooling", choices=("mean", "cls"), help="dense: if not said, as the encoder's files say"
    )
    index.add_argument("--query-prefix", metavar="TEXT", help="dense: put before each query")
    index.add_argument("--passage-prefix", metavar="TEXT", help="dense: put before each passage")
    index.add_argument(
        "--batch", type=int, metavar="N", help="dense: passages at a time; 32 if not said"
    )
    index.add_argument("--device", help="dense: cpu (if not said) or cuda")

    search = command("search", "show what an index finds for a query")
    search.add_argument("index", type=Path, metavar="INDEX")
    search.add_argument("query", metavar="QUERY")
    search.add_argument("--topk", type=int, default=5, metavar="K")
    search.add_argument("--json", action="store_true", help="print the results as JSON")

    serve = command("serve", "serve an index by the /retrieve protocol")
    serve.add_argument("index", type=Path, metavar="INDEX")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000, help="0: any free one")
    for each in (search, serve):
        each.add_argument("--encoder", default="", metavar="E", help="where the encoder is now")
        each.add_argument("--device", default="cpu", help="dense: cpu or cuda")
    return parser


def _index(options: argparse.Namespace) -> None:
    from whale_searchqa.retrieval.index import make_bm25, make_dense

    started = time.monotonic()
    show = Progress()
    if options.kind == "bm25":
        for name in (
            "encoder",
            "factory",
            "pooling",
            "query_prefix",
            "passage_prefix",
            "batch",
            "device",
        ):
            if getattr(options, name) is not None:
                raise InputError(f"--{name.replace('_', '-')}: is for --kind dense")
        made = make_bm25(options.corpus, options.out, show)
    else:
        from attrs import evolve

        from whale_searchqa.retrieval.encoder import Encoder, recipe_of
        from whale_searchqa.retrieval.open import needs

        needs("dense", "faiss", "torch", "transformers")
        if not options.encoder:
            raise InputError("--encoder: missing; --kind dense needs a folder or a hub name")
        batch = 32 if options.batch is None else options.batch
        if not 1 <= batch <= 4096:
            raise InputError(f"--batch={batch}: must be from 1 to 4096")
        given = {
            name: getattr(options, name)
            for name in ("query_prefix", "passage_prefix")
            if getattr(options, name) is not None
        }
        folder = options.encoder
        name = os.path.abspath(folder) if os.path.isdir(folder) else folder
        encoder = Encoder(
            name, evolve(recipe_of(name, options.pooling or ""), **given), options.device or "cpu"
        )
        factory = options.factory or "flat"
        made = make_dense(options.corpus, options.out, encoder, factory, batch, show)
    show.end()
    taken = time.monotonic() - started
    print(f"{options.out}: {made.kind}, {count(made.passages)} passages, {taken:.1f} s")


def _search(options: argparse.Namespace) -> None:
    import asyncio
    import json

    from whale_searchqa.retrieval.open import open_index

    if options.topk < 1:
        raise InputError(f"--topk={options.topk}: must be 1 or more")
    retriever = open_index(options.index, None, options.encoder, options.device)
    (hits,) = asyncio.run(retriever.search([options.query], options.topk))
    if options.json:
        rows = [{"score": hit.score, **hit.passage.document()} for hit in hits]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for rank, hit in enumerate(hits, start=1):
        passage = hit.passage
        print(f"{rank}. {hit.score:.4f}  {printable(passage.title)}  ({printable(passage.id)})")
        print(f"   {printable(passage.text, limit=300)}")
    if not hits:
        print("nothing found")


def _serve(options: argparse.Namespace) -> None:
    from whale_searchqa.retrieval.open import needs, open_index

    needs("serve", "starlette", "uvicorn")
    from whale_searchqa.retrieval.serve import listen, serve

    retriever = open_index(options.index, None, options.encoder, options.device)
    with listen(options.host, options.port) as bound:
        host = f"[{options.host}]" if ":" in options.host else options.host
        served = plural(int(retriever.facts()["passages"]), "passage")
        address = f"http://{host}:{bound.getsockname()[1]}/retrieve"
        print(f"{served} at {address} (Ctrl-C ends)", flush=True)
        serve(retriever, bound)


class Progress:
    """Tells on stderr how far something is: on a terminal in one line, else now and then."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = float("-inf")
        self._doing = ""

    def __call__(self, doing: str, done: int, total: int) -> None:
        """Show it, but not too often."""
        now = time.monotonic()
        if doing == self._doing and now - self._shown < (0.2 if self._terminal else 10.0):
            return
        if self._doing not in ("", doing):
            self.end()
        self._doing, self._shown = doing, now
        share = f" of {count(total)} ({100 * done // total} %)" if total else ""
        line = f"{doing}: {count(done)}{share}"
        print(f"\r{line:<70}" if self._terminal else line, end="", file=sys.stderr)
        print("" if self._terminal else "\n", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line that is being rewritten."""
        if self._terminal and self._doing:
            print(file=sys.stderr)


def _report(message: str, exit_code: int) -> int:
    print(f"whale-searchqa: {printable(message, limit=2000)}", file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
