"""The one place where queue names, actor names and job payloads are written. Payloads are ids, never content.

A nudge says that a stage has work; the work itself stands in the ledger. Nudges are coalesced by a flag in Redis:

    <namespace>:ring:<stage>   set by whoever rings (SET NX PX 1000), deleted by the worker before it claims
    <namespace>:ring:<job>     the same for one recall job (SET NX PX 5000), deleted by the worker before it takes it

No ring is lost by that. Whoever rings has committed first. If it finds the flag, the nudge that belongs to the flag
has not been answered yet: its worker will delete the flag, then claim, and so see the committed row. A worker that
deleted the flag before it claimed lets the next ringer enqueue again. A ringer that dies between flag and nudge costs
a second, then the flag is gone; and the sweeper rings for whatever was forgotten.

    <namespace>:bell           a channel: whoever enqueued names the queues, so that no worker has to keep looking
"""

from uuid import UUID

from dramatiq import Message

from store.ledger.stages import STAGES, Queue, Stage

#: How long a ring may stay unanswered before the next ringer enqueues again, in milliseconds: of a stage, of a job.
#: A stage's one message is for all its work; those of jobs wait behind each other, and one more makes that longer.
FLAG_MS, JOB_FLAG_MS = 1000, 5000


QUEUES = {stage: spec.queue for stage, spec in STAGES.items()}

#: The actor that answers a ring, one for each stage; it takes no arguments.
STAGE_ACTORS = {stage: f"work_{stage}" for stage in Stage}
#: The actor that answers a recall job: (host id, job id), both as text.
RECALL_ACTOR = "answer_recall"


def stage_message(stage: Stage) -> "Message[None]":
    """Return the nudge for a stage."""
    return Message(queue_name=QUEUES[stage], actor_name=STAGE_ACTORS[stage], args=(), kwargs={}, options={})


def recall_message(host: UUID, job: UUID) -> "Message[None]":
    """Return the nudge for one recall job; question and answer stay in its row."""
    return Message(queue_name=Queue.RECALL, actor_name=RECALL_ACTOR, args=(str(host), str(job)), kwargs={}, options={})


def flag_key(namespace: str, rung_for: Stage | UUID) -> str:
    """Return the Redis key that is set while a ring for a stage, or for a recall job, waits for its worker."""
    return f"{namespace}:ring:{rung_for}"


def bell_channel(namespace: str) -> str:
    """Return the channel on which the queues are named that something was put into, parted by blanks."""
    return f"{namespace}:bell"
