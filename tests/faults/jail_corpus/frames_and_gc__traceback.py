"""frames and gc: find frames of the trusted side in an error that came from there.

ends: nothing
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        try:
            await env.call("nothing")
        except Exception as error:
            trace, files = error.__traceback__, []
            while trace is not None:
                files.append(trace.tb_frame.f_code.co_filename)
                trace = trace.tb_next
            found = [
                file for file in files if "whale_core/" in file and "whale_harness/" not in file
            ]
            return f"SUCCEEDED {found}" if found else "nothing"
        return "SUCCEEDED"
