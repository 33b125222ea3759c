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
    at = max(0, len(items) - max(0, most))
    while at < len(items) and not _may_cut(items, at):
        at += 1
    return list(items[at:])


def _may_cut(items: Sequence[Item], at: int) -> bool:
    if at == 0:
        return True
    if items[at - 1].get("type") == "reasoning":
        return False
    before = {call for item in items[:at] for call in _list_calls(item)}
    return not any(call in before for item in items[at:] for call in _list_outputs(item))


def choose_history(stored: Sequence[Item], around: Sequence[Item]) -> list[Item]:
    """Return the stored items that are not in `around`; of a call and its output both, or neither."""
    known, outlines = {identify_item(item) for item in around}, {outline_item(item) for item in around}

    def is_known(item: Item) -> bool:
        # Most texts differ in their first word; identities of 17 items of 250 KiB took 51 ms, this .2.
        outline = outline_item(item)
        return (outline is None or None in outlines or outline in outlines) and identify_item(item) in known

    return keep_paired([item for item in stored if not is_known(item)], around)


def keep_paired(stored: Sequence[Item], around: Sequence[Item]) -> list[Item]:
    """Return the stored items without calls that lack their output, and outputs that lack their call, in both lists."""
    kept = list(stored)
    while True:
        lone = _find_unpaired([*kept, *around])
        left = [n for n, item in enumerate(kept) if lone.isdisjoint({*_list_calls(item), *_list_outputs(item)})]
        dropped = set(range(len(kept))) - set(left)
        left = [n for n in left if not (kept[n].get("type") == "reasoning" and n + 1 in dropped)]
        if len(left) == len(kept):
            return kept
        kept = [kept[n] for n in left]


def _find_unpaired(items: Sequence[Item]) -> set[str]:
    """Return the ids of calls without a later output, and of outputs without an earlier call."""
    opened, closed, lone = set[str](), set[str](), set[str]()
    for item in items:
        opened.update(_list_calls(item))
        for call in _list_outputs(item):
            (closed if call in opened else lone).add(call)
    return lone | (opened - closed)


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
    item remains after it. Stored items that also come later in the input may be missing from that beginning.
    """
    given, known = [identify_item(item) for item in items], [identify_item(item) for item in stored]
    longest = min(len(items) - 1, len(stored))
    behind = set(given[longest + 1 :])
    for size in range(longest, 0, -1):
        behind.add(given[size])
        shown = [one for one in known if one not in behind]
        if given[:size] in (known[-size:], shown[-size:]):
            return list(items[size:])
    return list(items)
