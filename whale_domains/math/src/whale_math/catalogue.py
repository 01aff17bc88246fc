r"""The catalogue of edits for the offline proposer.

Each edit is one mechanism, written as the class members it puts in place of the parent's. The
members have the same interfaces as in the base harnesses, so edits combine and crossover is safe.
Some are useful, some neutral, some harmful: a search has to find out which.
"""

from __future__ import annotations

from whale_core.edits import edit

SYSTEM = "A: system prompt"
USER = "B: user template"
CODE = "C: code normalisation"
FEEDBACK = "D: interpreter feedback"
RECOVERY = "E: response recovery"
STOPPING = "F: stop condition"


CATALOGUE = (
    # --- A: system prompt -------------------------------------------------------------------------
    edit(
        "no-system",
        SYSTEM,
        "neutral",
        "Worked problems say it all; an instruction before them only distracts.",
        'SYSTEM_PROMPT = ""\n',
    ),
    edit(
        "program-then-box",
        SYSTEM,
        "useful",
        "Two short sentences tell what each of the two replies has to be.",
        r"""
SYSTEM_PROMPT = (
    "First write one short program in <code></code>. When you see its output, give the answer in "
    "\\boxed{}."
)
""",
    ),
    edit(
        "careful-mathematician",
        SYSTEM,
        "harmful",
        "Principles of careful work keep the model from mistakes.",
        r"""
SYSTEM_PROMPT = (
    "You are a careful mathematician. Read the problem twice. Write down what is known and what "
    "is asked. Plan the solution, carry out each step, explain it in full sentences, and check "
    "the result in another way before you state it. Do not use a program for what can be done by "
    "thought. At the very end, put the final answer in \\boxed{}."
)
""",
    ),
    # --- B: user template and worked problems -----------------------------------------------------
    edit(
        "worked-sum",
        USER,
        "useful",
        "One solved problem in symbols shows what a program and an answer look like.",
        r"""
def example(self) -> list[Any]:
    return self.turn("What is 61 - 18?", "61 - 18", "43")
""",
    ),
    edit(
        "worked-in-words-and-symbols",
        USER,
        "useful",
        "Two solved problems, one in words and one in symbols, show that the form is always the "
        "same.",
        r"""
def example(self) -> list[Any]:
    words = "A shelf holds 12 jars of 48 beans and 7 loose beans. How many beans are there?"
    return [
        *self.turn(words, "12 * 48 + 7", "583"),
        *self.turn("What is 61 - 18?", "61 - 18", "43"),
    ]
""",
    ),
    edit(
        "worked-four",
        USER,
        "useful",
        "Four solved problems of four kinds leave little to guess.",
        r"""
def example(self) -> list[Any]:
    words = "A shelf holds 12 jars of 48 beans and 7 loose beans. How many beans are there?"
    fewer = "Uma has 35 pens and gives away 16. How many pens are left?"
    return [
        *self.turn(words, "12 * 48 + 7", "583"),
        *self.turn("What is 61 - 18?", "61 - 18", "43"),
        *self.turn(fewer, "35 - 16", "19"),
        *self.turn("What is the remainder when 75 is divided by 8?", "75 % 8", "3"),
    ]
""",
    ),
    edit(
        "no-worked-problem",
        USER,
        "harmful",
        "Without an example before it, the problem has the model's whole attention.",
        r"""
def example(self) -> list[Any]:
    return []
""",
    ),
    edit(
        "named-parts",
        USER,
        "neutral",
        "A label in front of the problem tells it from everything else.",
        'USER_PROMPT = "Problem: {problem}\\nProgram:"\n',
    ),
    edit(
        "step-by-step",
        USER,
        "harmful",
        "Reasoning before the answer improves it.",
        r"""
USER_PROMPT = (
    "{problem}\nThink step by step and explain each step, then put the final answer in \\boxed{}."
)
MAX_TOKENS = 96
""",
    ),
    # --- C: code normalisation --------------------------------------------------------------------
    edit(
        "fenced-code",
        CODE,
        "neutral",
        "Models have seen programs in fences far more often than in tags.",
        r"""
STOP = ("\n```",)


def turn(self, problem: str, term: str, value: str) -> list[Any]:
    return [
        {"role": "user", "content": self.user_text({"problem": problem})},
        {"role": "assistant", "content": "```python\nprint(" + term + ")\n```"},
        {"role": "user", "content": "Output: " + value},
        {"role": "assistant", "content": "\\boxed{" + value + "}"},
    ]


def program(self, text: str) -> tuple[str, bool] | None:
    found = re.search(r"```(?:python|py)?[ \t]*\n(.*?)```", text, re.DOTALL)
    return (found[1], False) if found and found[1].strip() else None
""",
    ),
    edit(
        "any-code",
        CODE,
        "useful",
        "A program in tags, in a fence, or on a line of its own that prints is a program.",
        r"""
def program(self, text: str) -> tuple[str, bool] | None:
    for form in (
        r"<code>(.*?)(?:</code>|\Z)",
        r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)",
        r"^((?:import |from |print\().*)",
    ):
        found = re.search(form, text, re.DOTALL | re.MULTILINE)
        if found and found[1].strip():
            return found[1], False
    return None
""",
    ),
    edit(
        "last-block",
        CODE,
        "neutral",
        "Of several programs the last is the one that the model settled on.",
        r"""
def program(self, text: str) -> tuple[str, bool] | None:
    found = re.findall(r"<code>(.*?)</code>|```(?:python|py)?[ \t]*\n(.*?)```", text, re.DOTALL)
    blocks = [tagged or fenced for tagged, fenced in found if (tagged or fenced).strip()]
    return (blocks[-1], False) if blocks else None
""",
    ),
    edit(
        "print-only",
        CODE,
        "harmful",
        "A program without a print shows nothing, so it need not be run.",
        r"""
SHOW_LAST = False


def program(self, text: str) -> tuple[str, bool] | None:
    found = re.search(r"<code>\s*(print\(.*?\))\s*</code>", text, re.DOTALL)
    return (found[1], False) if found else None
""",
    ),
    # --- D: interpreter feedback ------------------------------------------------------------------
    edit(
        "box-reminder",
        FEEDBACK,
        "useful",
        "A reminder beside the output of what to do with it is followed more often than one in the "
        "first message.",
        r"""
def feedback(self, result: dict[str, Any]) -> str:
    if result["exit_status"] == 0:
        shown = result["stdout"].strip()[: self.OUTPUT] or "nothing was printed"
        return "Output: " + shown + "\nPut the answer in \\boxed{}."
    error = result["stderr"].strip().splitlines()
    return "Error: " + (error[-1][: self.OUTPUT] if error else result["status"])
""",
    ),
    edit(
        "interpreter-tags",
        FEEDBACK,
        "neutral",
        "Tags around the output mark it as the interpreter's.",
        r"""
def feedback(self, result: dict[str, Any]) -> str:
    shown = (result["stdout"] + result["stderr"]).strip()[: self.OUTPUT]
    return "<interpreter>" + (shown or result["status"]) + "</interpreter>"
""",
    ),
    edit(
        "whole-traceback",
        FEEDBACK,
        "neutral",
        "The whole traceback says where a program went wrong.",
        r"""
OUTPUT = 1000


def feedback(self, result: dict[str, Any]) -> str:
    lines = ["stdout: " + result["stdout"].strip()[: self.OUTPUT]]
    if result["stderr"]:
        lines.append("stderr: " + result["stderr"].strip()[-self.OUTPUT :])
    lines.append("exit status: " + str(result["exit_status"]) + ", " + result["status"])
    return "\n".join(lines)
""",
    ),
    edit(
        "no-output",
        FEEDBACK,
        "harmful",
        "Whether a program worked is all the model needs to know.",
        r"""
def feedback(self, result: dict[str, Any]) -> str:
    return "The program worked." if result["exit_status"] == 0 else "The program failed."
""",
    ),
    # --- E: response recovery ---------------------------------------------------------------------
    edit(
        "ask-for-a-program",
        RECOVERY,
        "useful",
        "A reply without a program and without a box deserves one more try, and to be told what "
        "is wanted.",
        r"""
MAX_TURNS = 3


def nudge(self, text: str) -> str:
    if "\\boxed{" in text:
        return ""
    return "Write one program that prints the answer: <code>print(...)</code>"
""",
    ),
    edit(
        "ask-for-the-box",
        RECOVERY,
        "neutral",
        "A reply without a box deserves to be asked for it.",
        r"""
MAX_TURNS = 3


def nudge(self, text: str) -> str:
    return "" if "\\boxed{" in text else "Put the final answer in \\boxed{}."
""",
    ),
    edit(
        "number-as-answer",
        RECOVERY,
        "useful",
        "A last reply that names one number without a box means it as the answer.",
        r"""
def answer(self, text: str) -> str:
    numbers = re.findall(r"-?\d+(?:,\d{3})*(?:\.\d+)?", text)
    if "\\boxed{" in text or len(set(numbers)) != 1:
        return text
    return numbers[-1]
""",
    ),
    # --- F: stop condition and turn budget --------------------------------------------------------
    edit(
        "stop-at-code-end",
        STOPPING,
        "useful",
        "What follows a program's end is made up: the output is not known yet.",
        'STOP = ("</code>",)\nMAX_TOKENS = 32\n',
    ),
    edit(
        "program-before-box",
        STOPPING,
        "useful",
        "An answer before any program has run is a guess; with a program in it, run that first.",
        r"""
def final(self, text: str) -> bool:
    return False
""",
    ),
    edit(
        "four-turns",
        STOPPING,
        "neutral",
        "After an error a second program, with the error in view, may work.",
        "MAX_TURNS = 4\n",
    ),
    edit(
        "one-turn",
        STOPPING,
        "harmful",
        "The first answer is the best one.",
        "MAX_TURNS = 1\n",
    ),
    edit(
        "long-replies",
        STOPPING,
        "harmful",
        "More room lets the model come to its answer.",
        "MAX_TOKENS = 160\nSTOP = ()\n",
    ),
)
