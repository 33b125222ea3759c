"""Selects the shown part of a stored history, and the items of a turn that are new to it. Pure.

A call is never shown without its output, nor a call without the reasoning before it.
"""

from collections.abc import Sequence

from producers.turns.items import Item, identify_item, outline_item


def choose_current(items: Sequence[Item], start: int, count: int) -> tuple[int, int]:
    """Return begin and end of the current slice, by the contract's rules for any `start` and `count`."""
    begin = min(max(start, 0), len(items))
    size = len(items) - begin if count <= 0 or count > len(items) - begin else count
    return begin, begin + size


def cut_history(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most `most` of the newest items, cut where no call loses its output."""
    pairs, at = _pair_outputs(items), max(0, len(items) - max(0, most))
    while 0 < at < len(items) and (
        items[at - 1].get("type") == "reasoning" or any(call < at <= output for call, output in pairs)
    ):
        at += 1
    return list(items[at:])


def _pair_outputs(items: Sequence[Item]) -> list[tuple[int, int]]:
    """Return the indexes of each call and its output; a call's id may come again after its output."""
    asked, pairs = dict[str, int](), list[tuple[int, int]]()
    for n, item in enumerate(items):
        pairs += [(asked[call], n) for call in _list_outputs(item) if call in asked]
        asked.update(dict.fromkeys(_list_calls(item), n))
    return pairs


def choose_history(stored: Sequence[Item], around: Sequence[Item]) -> list[Item]:
    """Return the stored items that are not in `around`; of a call and its output both, or neither."""
    known, outlines = {identify_item(item) for item in around}, {outline_item(item) for item in around}

    def is_known(item: Item) -> bool:
        # Most texts differ in their first word; identities of 17 items of 250 KiB took 51 ms, this .2.
        outline = outline_item(item)
        return (outline is None or None in outlines or outline in outlines) and identify_item(item) in known

    return keep_paired([item for item in stored if not is_known(item)], around)


def keep_paired(stored: Sequence[Item], around: Sequence[Item]) -> list[Item]:
    """Return the stored items without calls that lack their output, and outputs that lack their call, in both lists.

    Reasoning goes with the call that it led to, and where a message of the user follows it.
    """
    kept = list(stored)
    while True:
        items = [*kept, *around]
        lone = _find_unpaired(items)
        left = [
            item
            for n, item in enumerate(kept)
            if n not in lone and not (item.get("type") == "reasoning" and (n + 1 in lone or _is_users(items[n + 1 :])))
        ]
        if len(left) == len(kept):
            return kept
        kept = left


def find_awaited(stored: Sequence[Item], around: Sequence[Item]) -> list[Item]:
    """Return the stored calls that still lack an output which `around` has, with the reasoning before them.

    Of an item of several calls, the outputs that are stored are there, too.
    """
    wanted = {call for item in around for call in _list_outputs(item)}
    wanted -= {call for item in around for call in _list_calls(item)}
    if not wanted:
        return []
    open_calls = _list_open_calls(stored)
    needed = {id(item) for call in wanted for item in open_calls.get(call, ())}
    return keep_paired([item for item in stored if id(item) in needed], around)


def _list_open_calls(stored: Sequence[Item]) -> dict[str, list[Item]]:
    """Return each call without an output: the reasoning before it, its item, and outputs of that item's other calls."""
    found, reasoning = dict[str, list[Item]](), list[Item]()
    for item in stored:
        outputs, calls = _list_outputs(item), _list_calls(item)
        for call in outputs:
            found.pop(call, []).append(item)
        group = [*reasoning, item]
        found.update((call, group) for call in calls)
        if item.get("type") == "reasoning":
            reasoning.append(item)
        elif not calls:
            reasoning = []
    return found


def _is_users(items: Sequence[Item]) -> bool:
    """Return whether these items begin with a message of the user."""
    return bool(items) and items[0].get("role") == "user"


def _find_unpaired(items: Sequence[Item]) -> set[int]:
    """Return the indexes of calls without a later output, and of outputs without a call that waits for one."""
    waiting, lone = dict[str, int](), set[int]()
    for n, item in enumerate(items):
        lone.update(n for call in _list_outputs(item) if waiting.pop(call, None) is None)
        for call in _list_calls(item):
            lone.update({waiting[call]} if call in waiting else ())
            waiting[call] = n
    return lone | {*waiting.values()}


def _list_calls(item: Item) -> list[str]:
    if isinstance(item.get("tool_calls"), list):
        return [call["id"] for call in item["tool_calls"] if isinstance(call, dict) and isinstance(call.get("id"), str)]
    kind = str(item.get("type", ""))
    call = item.get("id" if kind == "mcp_approval_request" else "call_id")
    asks = kind.endswith("_call") or kind == "mcp_approval_request"
    return [call] if isinstance(call, str) and call and asks else []


def _list_outputs(item: Item) -> list[str]:
    call = item.get("tool_call_id")
    if isinstance(call, str) and call:
        return [call]
    kind = str(item.get("type", ""))
    call = item.get("approval_request_id" if kind == "mcp_approval_response" else "call_id")
    answers = kind.endswith("_output") or kind == "mcp_approval_response"
    return [call] if isinstance(call, str) and call and answers else []


def choose_delta(items: Sequence[Item], stored: Sequence[Item]) -> list[Item]:
    """Return the items of a turn's input that do not repeat the stored history.

    The longest beginning that equals the end of the stored history (by identity, in order) is left out, as long as an
    item remains after it. What a prepared turn leaves out of that history may be missing: stored items that also come
    later in the input, and unpaired calls. Older calls whose outputs the input has may stand before it.
    """
    given, known = [identify_item(item) for item in items], [identify_item(item) for item in stored]
    identities = dict(zip(map(id, stored), known, strict=True))
    paired = [identities[id(item)] for item in keep_paired(stored, items)]
    open_calls = {identities[id(item)] for group in _list_open_calls(stored).values() for item in group}
    first = next((n for n, one in enumerate(given) if one not in open_calls), len(given))
    longest = min(len(items) - 1, len(stored))
    behind = set(given[longest + 1 :])
    for size in range(longest, 0, -1):
        behind.add(given[size])
        shown = [one for one in known if one not in behind]
        begins = {0, first} if first <= size else {0}
        if any(_ends_with(end, given[begin:size]) for end in (known, shown, paired) for begin in begins):
            return list(items[size:])
    return list(items)


def _ends_with(known: Sequence[str], given: Sequence[str]) -> bool:
    return list(known[len(known) - len(given) :]) == list(given)
