"""For plugin authors and tests: contract tests for each role (``contracts``), a toy domain that a
tiny random model can learn in seconds (``toy``), a scripted engine (``engine``), and real rollouts
outside a run (``workbench``)."""
