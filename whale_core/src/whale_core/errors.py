"""Every error a user can meet, each with the exit code it ends the process with.

A message is one line: what is wrong, where, and what to do about it. The command line prints it
without a traceback.
"""

from __future__ import annotations


class WhaleError(Exception):
    """Base of all errors whose message is meant for the user."""

    exit_code = 2


class InputError(WhaleError):
    """Bad input: a setting, a file, a name. Nothing was started and nothing is lost."""


class PluginError(WhaleError):
    """An installed plugin cannot be used: broken import, wrong class, two of one name."""

    exit_code = 3


class RunFolderError(WhaleError):
    """The run folder cannot be used: locked, written by another version, not a run folder."""

    exit_code = 4


class CapReached(WhaleError):
    """A hard cap stopped the run. It can be resumed with a larger cap."""

    exit_code = 5


class TooMuchNotScored(WhaleError):
    """Infrastructure faults left too many rollouts without a score. The run can be resumed."""

    exit_code = 6


class EngineError(WhaleError):
    """The rollout engine failed while it was being waited for: an infrastructure fault."""

    exit_code = 6


class Interrupted(WhaleError):
    """The run was asked to stop and did so after a finished block. It can be resumed."""

    exit_code = 130


class TrainerError(WhaleError):
    """A weight update failed (memory ran out, say) and was not made. The run can be resumed."""

    exit_code = 6
