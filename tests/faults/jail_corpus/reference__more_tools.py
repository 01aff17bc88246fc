"""reference: call what the environment does not offer, by odd names.

ends: nothing
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        found = []
        for name in ("say.__globals__", "", "SAY", "say\0", "../say", "reward"):
            try:
                found.append(await env.call(name))
            except Exception as error:
                if type(error).__name__ != "ToolError":
                    found.append(error)
        return f"SUCCEEDED {found}" if found else "nothing"
