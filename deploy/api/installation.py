"""What operators see of this API process: the settings in force, and what `afterturn doctor` finds from here."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator

from afterturn_client.contract.installation import Examination, Finding, SettingInForce, SettingsInForce

from deploy.components import doctor_checks
from deploy.components.doctor_checks import DoctorTarget
from deploy.components.doctor_rules import CheckVerdict
from deploy.settings import LoadedSettings, find_settings_without_effect
from deploy.settings_listing import list_settings

#: For how many seconds the answer of a check is given again: each opens several connections.
KEEP_S = 5.0


class ProcessInstallation:
    """The installation as this process reaches it. Belongs to one event loop."""

    def __init__(self, loaded: LoadedSettings) -> None:
        self._loaded = loaded
        self._checking = asyncio.Lock()
        self._last: tuple[float, Examination] | None = None

    def list_settings(self) -> SettingsInForce:
        """Return the settings in force, secrets masked, each with its origin."""
        origins = self._loaded.origins
        found = (
            SettingInForce(key=key, value=value, origin=origins.get(key, "default"))
            for key, value in list_settings(self._loaded.settings)
        )
        ignored = tuple(find_settings_without_effect(self._loaded))
        return SettingsInForce(process=_name_process(), settings=tuple(found), without_effect=ignored)

    async def examine(self) -> Examination:
        """Return what each check found, of the last seconds; one runs at a time."""
        async with self._checking:
            if self._last is None or time.monotonic() - self._last[0] > KEEP_S:
                found = [one async for one in self._check()]
                self._last = time.monotonic(), _describe_findings(found)
            return self._last[1]

    async def _check(self) -> AsyncIterator[Finding]:
        target = DoctorTarget(self._loaded.settings, None, names=False)
        for one in await asyncio.to_thread(lambda: [*doctor_checks.check_folders(target)]):
            yield one
        for one in doctor_checks.check_settings(target):
            yield one
        for look in (doctor_checks.check_postgresql, doctor_checks.check_gateways, doctor_checks.check_redis):
            async for one in look(target):
                yield one


def _describe_findings(found: list[Finding]) -> Examination:
    healthy = all(one.verdict != CheckVerdict.FAIL for one in found)
    return Examination(healthy=healthy, process=_name_process(), findings=tuple(found))


def _name_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
