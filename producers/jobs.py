"""Defines queue names, actor names and job payloads, for senders and workers. Payloads are ids, never content.

The one exception are turn queues (`queue.tenants`, off by default): agents publish content there, which stays until it
is accepted. Each has a namespace of its own, whose layout docs/queue.md describes.

A notification says that a stage has work; the work itself is in the ledger. Notifications are coalesced by a flag:

    <namespace>:notified:<stage>   set by the sender (SET NX PX 1000), deleted by the worker before it claims
    <namespace>:notified:<job>     the same for one recall job (SET NX PX 5000), deleted before it is taken

That loses no notification. A sender has committed first. If it finds the flag, the message that belongs to the
flag has not been taken yet: its worker will delete the flag, then claim, and so see the committed row. A worker that
deleted the flag before it claimed lets the next sender enqueue again. A sender that dies between flag and message
costs a second, after which the flag has expired; and the sweeper notifies workers of missed work.
"""

from uuid import UUID

from dramatiq import Message

from store.ledger.stages import STAGES, Queue, Stage

#: Milliseconds without an answer after which the next sender enqueues again, for a stage and for a job. Longer for
#: jobs, whose messages queue up, while one message covers all work of a stage.
FLAG_MS, JOB_FLAG_MS = 1000, 5000


QUEUES = {stage: spec.queue for stage, spec in STAGES.items()}

#: The actor of each stage; it takes no arguments.
STAGE_ACTORS = {stage: f"work_{stage}" for stage in Stage}
#: The actor that answers a recall job: (host id, job id), both as text.
RECALL_ACTOR = "answer_recall"


#: The queues of one tenant's published messages, and the actors that take them: envelopes, with content.
PUBLISHED = {"turns": "accept_turn", "recalls": RECALL_ACTOR}


def published_prefix(namespace: str, queue: str) -> str:
    """Return the first part of every key of a tenant's turn queue, a namespace of its own."""
    return f"{namespace}:queue:{queue}"


def stage_message(stage: Stage) -> "Message[None]":
    """Return the notification of a stage."""
    return Message(queue_name=QUEUES[stage], actor_name=STAGE_ACTORS[stage], args=(), kwargs={}, options={})


def recall_message(host: UUID, job: UUID) -> "Message[None]":
    """Return the notification of one recall job; question and answer stay in its row."""
    return Message(queue_name=Queue.RECALL, actor_name=RECALL_ACTOR, args=(str(host), str(job)), kwargs={}, options={})


def flag_key(namespace: str, subject: Stage | UUID | str) -> str:
    """Return the Redis key that is set while a notification of a stage, or of a recall job, waits for its worker."""
    return f"{namespace}:notified:{subject}"
