"""The embedded rollout engine `transformers`: batch-invariant sampling in this process.

Importing the package asks OpenMP to let waiting threads sleep after some microseconds (long enough
to catch the next small kernel): spinning on, they would take the cores that the jails and the
event loop need. OpenMP reads this once, when torch is first imported.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
os.environ.setdefault("KMP_BLOCKTIME", "0")
