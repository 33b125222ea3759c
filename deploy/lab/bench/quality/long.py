"""Pure conversion of a dialogue into its long variant: consecutive messages joined into one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from deploy.lab.bench.quality.material import Dialogue, DialogueMessage, DialogueQuestion


def join_messages(dialogue: Dialogue, turns: int) -> Dialogue:
    """Return a dialogue in which `turns` consecutive messages of a session are one message of the first speaker.

    Every line names its speaker. The evidence is the long message that contains the original one.
    """
    runs = list(_split_runs(dialogue.said, turns))
    home = {one.id: run[0].id for run in runs for one in run}
    asked = [DialogueQuestion(a.text, a.category, frozenset(home[one] for one in a.evidence)) for a in dialogue.asked]
    return Dialogue(f"{dialogue.name} by {turns}", [_join_run(run) for run in runs], asked)


def _split_runs(said: Sequence[DialogueMessage], turns: int) -> Iterator[Sequence[DialogueMessage]]:
    for _, found in groupby(said, key=lambda one: one.session):
        session = list(found)
        yield from (session[at : at + turns] for at in range(0, len(session), turns))


def _join_run(run: Sequence[DialogueMessage]) -> DialogueMessage:
    return replace(run[0], text="\n".join(f"{one.name or one.role}: {one.text}" for one in run))
