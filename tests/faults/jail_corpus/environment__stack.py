"""environment: read the environment that the zygote was started with from the stack.

ends: nothing
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None)
        name = ctypes.c_void_p.in_dll(libc, "program_invocation_name").value
        strings = ctypes.string_at(name, 4096 - name % 4096)  # to the end of the page
        found = [mark for mark in (b"CORPUS_KEY", b"HOME=", b"PATH=/", b"_KEY=") if mark in strings]
        return f"SUCCEEDED {found}" if found else "nothing"
