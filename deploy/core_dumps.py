"""No core dumps: a process that crashes leaves no copy of its memory, which holds what was said and keys."""

import resource


def forbid_core_dumps() -> None:
    """Forbid them for this process and all it starts; nothing it may do undoes that, unless it is root.

    PR_SET_DUMPABLE stays as it is: without it nobody but root could read the environment by which `afterturn up` finds
    processes that an earlier run left behind.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
