"""processes: make a 32-bit system call, whose numbers mean other calls.

ends: died
needs: x86_64
"""

import ctypes
import mmap

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        code = mmap.mmap(-1, 4096, prot=7)
        code.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, getpid; int 0x80; ret
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        return f"SUCCEEDED {ctypes.CFUNCTYPE(ctypes.c_int)(address)()}"
