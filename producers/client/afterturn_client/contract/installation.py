"""What operators see of the installation that serves them: settings in force, and the findings of its checks."""

from dataclasses import dataclass

from afterturn_client.contract.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInForce(Shape):
    """One setting of the process that answers."""

    key: str
    """name of the setting, its parts joined by dots: `api.port`"""
    value: str | int | float | bool | None
    """its value; a secret, and the password and query of a URL, are masked"""
    origin: str
    """where the value is from: `default`, the file, the variable or an option"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsInForce(Shape):
    """The settings of the process that answers."""

    process: str
    """the process that answers: machine and process id"""
    settings: tuple[SettingInForce, ...]
    """every setting, in the order of the reference"""
    without_effect: tuple[str, ...]
    """names of settings that were set and change nothing here"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Shape):
    """The finding of one check."""

    subject: str
    """thing that was checked"""
    verdict: str
    """`ok`, `warn` or `fail`"""
    seen: str
    """finding"""
    remedy: str
    """remedy; empty where all is well"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination(Shape):
    """The checks of an installation."""

    healthy: bool
    """whether no check failed"""
    process: str
    """the process that checked: machine and process id"""
    findings: tuple[Finding, ...]
    """finding of each check"""
