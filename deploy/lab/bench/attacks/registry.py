"""Every attack there is: an attack more is an entry more in one of these modules."""

from collections.abc import Sequence

from deploy.lab.bench.attacks import connections, contents, floods
from deploy.lab.bench.attacks.attack import Attack

#: Those that leave workers much to do come last.
ATTACKS: Sequence[Attack] = (*connections.ATTACKS, *floods.ATTACKS, *contents.ATTACKS)
