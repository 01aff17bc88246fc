"""What is known of loaded plugins: where each comes from, what it registered, why it failed."""

from __future__ import annotations

from attrs import frozen

from whale_core.plugins import Registration
from whale_core.plugins.remedies import remedy_for

THIS_PROGRAM = "this program"  # stands for a distribution: registered without being installed


@frozen
class Origin:
    """The entry point that a plugin came from."""

    distribution: str
    version: str
    entry_point: str

    def __str__(self) -> str:
        if self.distribution == THIS_PROGRAM:
            return f"of {THIS_PROGRAM} ({self.version})"
        return f"{self.distribution} {self.version} (entry point '{self.entry_point}')"


@frozen
class Registered:
    """A registration with its role and its origin."""

    role: str
    registration: Registration
    origin: Origin

    @property
    def name(self) -> str:
        """The plugin's name, as a configuration writes it."""
        return self.registration.name

    @property
    def distribution(self) -> str:
        """The distribution that registered it."""
        return self.origin.distribution

    @property
    def version(self) -> str:
        """The distribution's version."""
        return self.origin.version

    @property
    def entry_point(self) -> str:
        """The name of the entry point that registered it."""
        return self.origin.entry_point


@frozen
class Failure:
    """A plugin that could not be loaded: from where, while doing what, why, and what helps.

    ``state`` is ``broken``, or ``incompatible`` for one that is made for another whale-core.
    """

    origin: Origin
    doing: str
    cause: str
    remedy: str
    state: str = "broken"
    error: BaseException | None = None

    def __str__(self) -> str:
        if self.state == "incompatible":
            return f"plugin {self.origin} {self.cause}; {self.remedy}"
        return f"plugin {self.origin} failed while {self.doing}: {self.cause}; {self.remedy}"

    @classmethod
    def of(cls, origin: Origin, doing: str, error: BaseException) -> Failure:
        """Return the account of ``error``, with the remedy that fits its kind."""
        cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        cause = " ".join(cause.split())
        remedy = "mend it and register it again"
        if origin.distribution != THIS_PROGRAM:
            remedy = remedy_for(origin.distribution, error)
        return cls(origin, doing, cause, remedy, error=error)


@frozen
class Disabled:
    """A plugin that was left out on purpose, and the environment variable that did it."""

    origin: Origin
    variable: str
