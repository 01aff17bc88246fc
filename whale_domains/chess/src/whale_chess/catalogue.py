"""The catalogue of edits for the offline proposer.

Each edit is one mechanism, written as the class members it puts in place of the parent's. The
members have the same interfaces as in the base harnesses, so edits combine and crossover is safe.
Some are useful, some neutral, some harmful: a search has to find out which.
"""

from __future__ import annotations

from whale_core.edits import edit

PROMPT = "prompt architecture"
OBSERVATION = "observation formatting"
LISTING = "move listing"
PARSER = "parser"
FEEDBACK = "feedback"
HISTORY = "history"
TERMINATION = "termination"


CATALOGUE = (
    # --- move listing -----------------------------------------------------------------------------
    edit(
        "san-only",
        LISTING,
        "neutral",
        "One notation in a short list is easier to copy than two.",
        r"""
def list_moves(self, task: dict[str, Any]) -> str:
    return "Legal moves: " + ", ".join(move["san"] for move in task["legal_moves"])


def example_reply(self, move: dict[str, str]) -> str:
    return "<move>" + move["san"] + "</move>"
""",
    ),
    edit(
        "uci-only",
        LISTING,
        "harmful",
        "Coordinates alone are the shortest list.",
        r"""
def list_moves(self, task: dict[str, Any]) -> str:
    return "Legal moves: " + " ".join(move["uci"] for move in task["legal_moves"])


def example_reply(self, move: dict[str, str]) -> str:
    return "<move>" + move["uci"] + "</move>"
""",
    ),
    edit(
        "effects-one-per-line",
        LISTING,
        "useful",
        "A forcing move on a line of its own, its effect in words, can be found by reading.",
        r"""
def list_moves(self, task: dict[str, Any]) -> str:
    lines, others = [], []
    for move in task["legal_moves"]:
        san = move["san"]
        effects = ["capture"] if "x" in san else []
        if san.endswith("#"):
            effects.append("checkmate")
        elif san.endswith("+"):
            effects.append("check")
        if effects:
            lines.append(san + ": " + ", ".join(effects))
        else:
            others.append(san)
    return "\n".join(["Other moves: " + " ".join(others), "Forcing moves:", *lines])


def example_reply(self, move: dict[str, str]) -> str:
    return "<move>" + move["san"] + "</move>"
""",
    ),
    edit(
        "effects-in-coordinates",
        LISTING,
        "neutral",
        "Coordinates name a move without the signs that give its effect away twice.",
        r"""
def list_moves(self, task: dict[str, Any]) -> str:
    lines, others = [], []
    for move in task["legal_moves"]:
        san = move["san"]
        effects = ["capture"] if "x" in san else []
        if san.endswith("#"):
            effects.append("checkmate")
        elif san.endswith("+"):
            effects.append("check")
        if effects:
            lines.append(move["uci"] + ": " + ", ".join(effects))
        else:
            others.append(move["uci"])
    return "\n".join(["Other moves: " + " ".join(others), "Forcing moves:", *lines])


def example_reply(self, move: dict[str, str]) -> str:
    return "<move>" + move["uci"] + "</move>"
""",
    ),
    edit(
        "effects-inline",
        LISTING,
        "neutral",
        "An effect word beside every move tells more than the notation's signs.",
        r"""
def list_moves(self, task: dict[str, Any]) -> str:
    words = {"#": "checkmate", "+": "check"}
    shown = []
    for move in task["legal_moves"]:
        san = move["san"]
        effect = words.get(san[-1]) or ("capture" if "x" in san else "")
        shown.append(move["uci"] + " " + san + (" (" + effect + ")" if effect else ""))
    return "Legal moves: " + ", ".join(shown)


def example_reply(self, move: dict[str, str]) -> str:
    return "<move>" + move["uci"] + "</move>"
""",
    ),
    edit(
        "forcing-first-groups",
        LISTING,
        "useful",
        "Checks and captures come before quiet moves, so attention falls on them.",
        r"""
def list_moves(self, task: dict[str, Any]) -> str:
    checks, captures, others = [], [], []
    for move in task["legal_moves"]:
        san = move["san"]
        group = checks if san[-1] in "+#" else captures if "x" in san else others
        group.append(san)
    return "\n".join(
        [
            "Checks: " + " ".join(checks),
            "Captures: " + " ".join(captures),
            "Others: " + " ".join(others),
        ]
    )


def example_reply(self, move: dict[str, str]) -> str:
    return "<move>" + move["san"] + "</move>"
""",
    ),
    edit(
        "checkmates-last-groups",
        LISTING,
        "useful",
        "Groups in rising order of force: what stands nearest to the answer is copied most easily.",
        r"""
def list_moves(self, task: dict[str, Any]) -> str:
    groups: dict[str, list[str]] = {"Others": [], "Captures": [], "Checks": [], "Checkmates": []}
    for move in task["legal_moves"]:
        san = move["san"]
        name = {"#": "Checkmates", "+": "Checks"}.get(san[-1])
        groups[name or ("Captures" if "x" in san else "Others")].append(san)
    return "\n".join(name + ": " + " ".join(moves) for name, moves in groups.items() if moves)


def example_reply(self, move: dict[str, str]) -> str:
    return "<move>" + move["san"] + "</move>"
""",
    ),
    edit(
        "reversed-list",
        LISTING,
        "neutral",
        "Another order of the same list breaks the habit of naming its first moves.",
        r"""
def list_moves(self, task: dict[str, Any]) -> str:
    moves = [move["uci"] + " " + move["san"] for move in reversed(task["legal_moves"])]
    return "Legal moves: " + ", ".join(moves)


def example_reply(self, move: dict[str, str]) -> str:
    return "<move>" + move["uci"] + "</move>"
""",
    ),
    # --- observation formatting -------------------------------------------------------------------
    edit(
        "moves-only",
        OBSERVATION,
        "useful",
        "A small model cannot read a board; without board and FEN the list is all there is.",
        r"""
def observation(self, task: dict[str, Any]) -> str:
    return task["side"] + " to move.\n" + self.list_moves(task)
""",
    ),
    edit(
        "drop-board",
        OBSERVATION,
        "neutral",
        "FEN and board say the same; one of them is enough.",
        r"""
def observation(self, task: dict[str, Any]) -> str:
    lines = ["FEN: " + task["fen"], task["side"] + " to move."]
    if task["last_opponent_move"]:
        lines.append("Last opponent move: " + task["last_opponent_move"]["san"])
    return "\n".join([*lines, self.list_moves(task)])
""",
    ),
    # --- prompt architecture ----------------------------------------------------------------------
    edit(
        "ask-for-checkmate",
        PROMPT,
        "useful",
        "A question with a concrete answer in the list beats an instruction.",
        r"""
USER_PROMPT = "{observation}\nWhich move gives checkmate? Return it in <move></move> tags."
""",
    ),
    edit(
        "ask-for-best-move",
        PROMPT,
        "neutral",
        "A question is easier to answer than an instruction.",
        r"""
USER_PROMPT = "{observation}\nWhat is the best move? Return it in <move></move> tags."
""",
    ),
    edit(
        "explain-notation",
        PROMPT,
        "useful",
        "The model may not know that # marks checkmate.",
        r"""
SYSTEM_PROMPT = (
    "You solve chess puzzles. In a move, x marks a capture, + marks check and # marks checkmate. "
    "Answer with one legal move in <move></move> tags."
)
""",
    ),
    edit(
        "long-system",
        PROMPT,
        "harmful",
        "Detailed principles of play help to choose.",
        r"""
SYSTEM_PROMPT = (
    "You are a careful chess player. Before you answer, look at the whole board. Compare the "
    "material of both sides. See which pieces are attacked and which are defended. Look for "
    "checks, captures and threats, for pins, forks and skewers, and for the safety of both "
    "kings. Think about what your opponent would answer. Do not invent moves: choose from the "
    "legal moves that are shown. When you have decided, return one move in <move></move> tags."
)
""",
    ),
    edit(
        "worked-example",
        PROMPT,
        "useful",
        "One solved turn shows the form of the answer better than any instruction.",
        r"""
def example(self) -> dict[str, Any] | None:
    listed = (
        "e3d2 Kd2 e3d3 Kd3 e3d4 Kd4 e3e2 Ke2 g6g7 g7 g8d5 Qxd5 g8e6 Qe6 g8f7 Qf7 g8f8 Qxf8+ "
        "g8g7 Qg7+ g8h7 Qh7# g8h8 Qh8+ h4h5 h5"
    )
    moves = listed.split()
    view = {
        "fen": "5qQ1/8/6Pk/3p4/7P/4K3/8/1r6 w - - 0 1",
        "side": "White",
        "board": "8 . . . . . q Q .\n7 . . . . . . . .\n6 . . . . . . P k\n5 . . . p . . . .\n"
        "4 . . . . . . . P\n3 . . . . K . . .\n2 . . . . . . . .\n1 . r . . . . . .\n"
        "  a b c d e f g h",
        "last_opponent_move": None,
        "accepted_moves": [],
        "move_number": 1,
        "legal_moves": [
            {"uci": uci, "san": san} for uci, san in zip(moves[::2], moves[1::2], strict=True)
        ],
    }
    return {"view": view, "move": {"uci": "g8h7", "san": "Qh7#"}}
""",
    ),
    edit(
        "think-first",
        PROMPT,
        "harmful",
        "Reasoning before the move improves it.",
        r"""
USER_PROMPT = (
    "{observation}\nThink step by step about the candidate moves, then return one move in "
    "<move></move> tags."
)
MAX_TOKENS = 96
STOP = ("</move>",)
""",
    ),
    # --- parser -----------------------------------------------------------------------------------
    edit(
        "accept-plain-words",
        PARSER,
        "useful",
        "Many replies name one listed move in plain words; they are answers too.",
        r"""
def parse(self, text: str, task: dict[str, Any]) -> str | None:
    tagged = list(dict.fromkeys(re.findall(r"<move>\s*([^\s<>]+)", text)))
    if tagged:
        return tagged[0] if len(tagged) == 1 else None
    named = {move[form] for move in task["legal_moves"] for form in ("uci", "san")}
    words = [word.rstrip(".") for word in re.findall(r"[A-Za-z0-9=+#.-]+", text)]
    moves = list(dict.fromkeys(word for word in words if word in named))
    return moves[0] if len(moves) == 1 else None
""",
    ),
    edit(
        "last-mention-wins",
        PARSER,
        "neutral",
        "After several mentions the last one is the commitment.",
        r"""
def parse(self, text: str, task: dict[str, Any]) -> str | None:
    tagged = re.findall(r"<move>\s*([^<>]+?)\s*</move>", text)
    found = tagged or re.findall(r"\b[a-h][1-8][a-h][1-8][qrbn]?\b", text)
    return found[-1] if found else None
""",
    ),
    edit(
        "tags-only",
        PARSER,
        "harmful",
        "Only a tagged UCI move is a clear commitment.",
        r"""
def parse(self, text: str, task: dict[str, Any]) -> str | None:
    found = re.findall(r"<move>([a-h][1-8][a-h][1-8][qrbn]?)</move>", text)
    return found[0] if len(found) == 1 else None
""",
    ),
    # --- feedback ---------------------------------------------------------------------------------
    edit(
        "show-the-form",
        FEEDBACK,
        "neutral",
        "Feedback that shows the wanted form, with a move of the list, is followed more often.",
        r"""
def format_feedback(self) -> str:
    return "Answer in this form and write nothing else: <move>MOVE</move>, MOVE being in the list."
""",
    ),
    edit(
        "no-retries",
        FEEDBACK,
        "neutral",
        "A second try seldom helps and costs a call.",
        "FORMAT_RETRIES = 0\nILLEGAL_RETRIES = 0\n",
    ),
    edit(
        "second-try",
        FEEDBACK,
        "useful",
        "A reply that could not be read, or an illegal move, deserves one more try.",
        "FORMAT_RETRIES = 1\nILLEGAL_RETRIES = 1\n",
    ),
    edit(
        "name-the-illegal-move",
        FEEDBACK,
        "neutral",
        "Saying which move was not legal, with three tries left, keeps it from coming again.",
        r"""
ILLEGAL_RETRIES = 3


def illegal_feedback(self, move: str) -> str:
    return move + " is not in the list. Answer with a move that is in the list."
""",
    ),
    # --- history ----------------------------------------------------------------------------------
    edit(
        "fresh-context",
        HISTORY,
        "neutral",
        "Bad replies in the context are copied; every call should start clean.",
        r"""
def messages(self, task: dict[str, Any], history: list[Any], feedback: str) -> list[Any]:
    user = {"role": "user", "content": self.user_text(task)}
    if feedback:
        user["content"] += "\n" + feedback
    return [*self.opening(), user]
""",
    ),
    # --- termination ------------------------------------------------------------------------------
    edit(
        "stop-at-tag",
        TERMINATION,
        "useful",
        "What follows the first closing tag can only make the answer ambiguous.",
        'STOP = ("</move>",)\nMAX_TOKENS = 16\n',
    ),
    edit(
        "long-replies",
        TERMINATION,
        "harmful",
        "More room lets the model come to its answer.",
        "MAX_TOKENS = 64\nSTOP = ()\n",
    ),
)
