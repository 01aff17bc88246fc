"""smuggling: wake a sibling that waits on a page both map.

ends: nothing|error: PermissionError
needs: x86_64
group: stall
"""

import ctypes
import json
import mmap
import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        file = os.open(json.__file__, os.O_RDONLY)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (
            [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
        )
        page = libc.mmap(None, 4096, 1, mmap.MAP_SHARED, file, 0)
        word = ctypes.c_uint32.from_address(page).value
        if task["letters"] > "m":  # some wait, the others wake them and so learn that they wait
            libc.syscall(202, ctypes.c_void_p(page), 0, word, (ctypes.c_long * 2)(1, 0), None, 0)
            return "nothing"
        for _ in range(20):
            woken = libc.syscall(202, ctypes.c_void_p(page), 1, 100, None, None, 0)
            if woken < 0:
                raise OSError(ctypes.get_errno(), "futex")
            if woken > 0:
                return f"SUCCEEDED {woken}"
            libc.usleep(20_000)
        return "nothing"
