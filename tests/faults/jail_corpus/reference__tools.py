"""reference: call what the environment does not offer.

ends: nothing
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        found = []
        for name in (
            "record",
            "view",
            "verify",
            "_letters",
            "__class__",
            "say.__globals__",
            "",
            "SAY",
        ):
            try:
                found.append(await env.call(name))
            except Exception as error:
                if type(error).__name__ != "ToolError":
                    found.append(error)
            if name == "__class__":
                break
        return f"SUCCEEDED {found}" if found else "nothing"
