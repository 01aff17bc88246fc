"""memory: grow the stack.

ends: died
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None)
        compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

        def order(left, right):
            libc.qsort(ctypes.create_string_buffer(2), 2, 1, compare(order))
            return 0

        import sys

        sys.setrecursionlimit(10**9)
        order(None, None)
        return "SUCCEEDED"
