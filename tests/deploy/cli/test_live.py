"""The clients and the commands against the product itself: `afterturn up`, everything real."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from uuid import UUID

import httpx
import pytest
from afterturn_client import (
    Afterturn,
    AsyncAfterturn,
    InvalidArgumentError,
    Message,
    NewTurn,
    NotFoundError,
    PermissionDeniedError,
    RefusedTurn,
    ResourceBusyError,
    TurnConflictError,
    TurnReceipt,
    UnauthenticatedError,
)
from typer.testing import CliRunner, Result

from deploy.cli.app import build_cli
from deploy.lab.demo.data import FOLDER
from deploy.local.stack import Stack, find_stack
from tests.deploy.upper import remove
from tests.faults.counting import UNDONE, wait_for
from tests.patience import PATIENCE_S, until, wait_until
from tests.processes import spawned

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("live-stack")]

TURNS = "select count(*) from afterturn.turn_t"
COMMAND = [sys.executable, "-P", "-c", "from deploy.cli import main; main()"]


class Live:
    """The running product in a data folder, and its commands."""

    def __init__(self, data: Path, ready: str, printed: str = "") -> None:
        self.data = data
        #: What `up` said when it was ready, and what it printed after that.
        self.told: dict[str, Any] = json.loads(ready.removeprefix("READY "))
        self.printed = printed

    @property
    def stack(self) -> Stack:
        return find_stack(self.data)

    def run(self, *arguments: str) -> Result:
        """Run a command, which has an event loop of its own: not to be called on one."""
        return CliRunner().invoke(build_cli(arguments[0]), [*arguments, "--data", str(self.data)])

    def answer(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--json")
        assert done.stdout, done.stderr
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def kill(self, name: str) -> None:
        """Kill a process of the stack as the kernel would, and wait until another has its place."""
        before = next(one.pid for one in self.stack.processes if one.name == name)
        os.kill(before, signal.SIGKILL)
        another = f"{name} is started again"
        wait_until(lambda: any(one.name == name and one.pid != before for one in self.stack.processes), another)

    def client(self, key: str = "", bank: str = "default") -> AsyncAfterturn:
        return AsyncAfterturn(self.stack.api, key or self.stack.api_key(), bank=bank)


@contextmanager
def up(data: Path, *options: str, **environment: str) -> Iterator[Live]:
    """Run the product on a data folder that is empty, end it cleanly and remove what it kept."""
    command = [*COMMAND, "up", "--data", str(data), "--port", "0", *options]
    try:
        with spawned(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment) as process:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("READY ")
            yield Live(data, ready, "".join(read_to_the_last(process.stdout)))
            process.terminate()
            process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    finally:
        remove(data)


def read_to_the_last(output: IO[str]) -> Iterator[str]:
    """Yield the lines that `up` prints once it is ready."""
    while line := output.readline():
        yield line
        if line.startswith("Logs are in "):
            return
    raise AssertionError


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with up(tmp_path_factory.mktemp("live") / "data", "--workers", "1") as running:
        yield running


@pytest.fixture
async def client(live: Live) -> AsyncIterator[AsyncAfterturn]:
    async with live.client() as made:
        yield made


def said(text: str) -> list[Message]:
    return [Message("user", text, name="Ana")]


async def test_a_turn_is_durable_named_and_found_at_once(client: AsyncAfterturn) -> None:
    receipt = await client.add_turn("s", said("the zeppelin lands on Tuesday"))
    again = await client.add_turn("s", said("the zeppelin lands on Tuesday"), turn_id=receipt.turn_id)
    assert (again.position, again.duplicate, client.position) == (receipt.position, True, receipt.position)
    answer = await client.recall("when does the zeppelin land?", k=3, explain=True)
    assert answer.freshness.met
    assert answer.results[0].turn_id == receipt.turn_id
    assert answer.results[0].name == "Ana"
    assert answer.reference is not None
    assert answer.reference["role"] == "user"


async def test_the_same_turn_with_another_body_is_a_conflict(client: AsyncAfterturn) -> None:
    receipt = await client.add_turn("s", said("one"))
    with pytest.raises(TurnConflictError):
        await client.add_turn("s", said("another"), turn_id=receipt.turn_id)


async def test_a_turn_written_by_many_at_once_is_written_once(live: Live) -> None:
    async with live.client() as client:
        calls = [client.add_turn("race", said("all at once"), turn_id="t") for _ in range(8)]
        receipts = await asyncio.gather(*calls, return_exceptions=True)
    assert not [one for one in receipts if isinstance(one, BaseException) and not isinstance(one, ResourceBusyError)]
    landed = [one for one in receipts if isinstance(one, TurnReceipt)]
    assert sum(not one.duplicate for one in landed) == 1
    assert len({one.position for one in landed}) == 1


async def test_a_batch_refuses_one_turn_and_takes_the_others(client: AsyncAfterturn) -> None:
    await client.add_turn("batch", said("first"), turn_id="b")
    turns = [NewTurn("batch", said(text), turn_id=name) for name, text in (("a", "1"), ("b", "other"), ("c", "3"))]
    first, second, third = await client.add_turns(turns)
    assert isinstance(first, TurnReceipt)
    assert isinstance(second, RefusedTurn)
    assert isinstance(second.error, TurnConflictError)
    assert isinstance(third, TurnReceipt)


async def test_a_turn_goes_through_every_stage_and_freshness_tells_when(client: AsyncAfterturn) -> None:
    receipt = await client.add_turn("s", said("stages"), turn_id="a/b c?#%2F")

    async def passed() -> bool:
        return (await client.freshness(position=receipt.position, wait_ms=10_000)).met

    await until(passed, "every stage has passed the turn")
    status = await client.turn_status("s", "a/b c?#%2F")
    assert status.settled
    assert status.position == receipt.position
    assert {name: stage.status for name, stage in status.stages.items()} == {
        "gateway": "skipped",
        "extraction": "done",
        "embedding": "done",
        "projection": "done",
    }


async def test_a_unit_is_shown_with_its_provenance_and_can_be_forgotten(client: AsyncAfterturn) -> None:
    receipt = await client.add_turn("s", said("the okapi is called Marzipan"))
    found = (await client.recall("okapi Marzipan", k=1)).results[0]
    unit = await client.get_unit(found.unit_id)
    assert (unit.text, unit.turn_id) == ("the okapi is called Marzipan", receipt.turn_id)
    await client.delete_unit(found.unit_id)
    assert found.unit_id not in {one.unit_id for one in (await client.recall("okapi Marzipan")).results}
    with pytest.raises(NotFoundError):
        await client.get_unit(found.unit_id)


async def test_a_unit_is_corrected_pinned_and_forgotten_by_commands(live: Live, client: AsyncAfterturn) -> None:
    await client.add_turn("s", said("the walrus is called Nougat"))
    unit = str((await client.recall("walrus Nougat", k=1)).results[0].unit_id)
    done = await asyncio.to_thread(live.answer, "unit", "correct", unit, "the walrus is called Praline")
    assert (done["ok"], done["changed"]) == (True, True)
    found = (await client.recall("Praline", k=1)).results[0]
    assert (str(found.unit_id), found.text) == (unit, "the walrus is called Praline")
    shown = await asyncio.to_thread(live.answer, "unit", "show", unit)
    assert (shown["text"], shown["version"]) == ("the walrus is called Praline", 2)
    for command, changed in (("pin", True), ("pin", False)):
        assert (await asyncio.to_thread(live.answer, "unit", command, unit))["changed"] is changed
    assert (await client.recall("what is the weather", k=2)).results[0].unit_id == UUID(unit)
    assert (await asyncio.to_thread(live.answer, "unit", "unpin", unit))["pinned"] is False
    for end, shown_as in (("2031-05-01T12:00:00Z", "2031-05-01T12:00:00+00:00"), ("never", None)):
        assert (await asyncio.to_thread(live.answer, "unit", "end", unit, end))["changed"] is True
        assert (await asyncio.to_thread(live.answer, "unit", "show", unit))["expires_at"] == shown_as
    assert (await asyncio.to_thread(live.run, "unit", "end", unit, "tomorrow")).exit_code == 2
    unasked = await asyncio.to_thread(live.run, "unit", "forget", unit)
    assert unasked.exit_code == 2
    assert (await asyncio.to_thread(live.run, "unit", "forget", unit, "--yes")).exit_code == 0
    gone = await asyncio.to_thread(live.run, "unit", "show", unit)
    assert (gone.exit_code, gone.stdout) == (1, "")


async def test_a_recall_job_waits_for_its_reader(client: AsyncAfterturn) -> None:
    await client.add_turn("s", said("the ferry to Vis leaves at noon"))
    job = await client.start_recall("ferry to Vis", ttl_s=600)

    async def done() -> bool:
        return (await client.recall_job(job.job_id, wait_ms=10_000)).status == "done"

    await until(done, "the job is answered")
    state = await client.recall_job(job.job_id)
    assert state.answer is not None
    assert "ferry" in state.answer.results[0].text
    await client.cancel_recall(job.job_id)
    with pytest.raises(NotFoundError):
        await client.recall_job(job.job_id)


def test_operators_commands_call_the_api_with_the_key_that_up_made(live: Live) -> None:
    assert live.run("jobs", "list").exit_code == 0

    def listed() -> set[tuple[str, str | None]]:
        calls = live.answer("audit", "list", "--operation", "GET /api/v1/operator/jobs")["calls"]
        return {(one["key_id"], one["actor"]) for one in calls}

    wait_until(lambda: bool(listed()), "the call is in the audit")
    [known] = [one for one in live.answer("keys", "list-operators")["keys"] if one["label"] == "afterturn up"]
    assert listed() == {(known["key_id"], None)}


async def test_wrong_questions_are_typed(live: Live, client: AsyncAfterturn) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await client.recall("q", k=0)
    assert "k" in str(caught.value)
    with pytest.raises(NotFoundError):
        await client.turn_status("s", "none")
    async with live.client("at_wrong-key") as stranger:
        with pytest.raises(UnauthenticatedError):
            await stranger.recall("q")


async def test_the_blocking_twin_does_the_same(live: Live) -> None:
    def walk() -> None:
        with Afterturn(live.stack.api, live.stack.api_key(), bank="twin") as client:
            receipt = client.add_turn("s", said("a walrus in the twin's bank"))
            assert client.recall("walrus").results[0].turn_id == receipt.turn_id
            assert client.health().status == "ready"

    await asyncio.to_thread(walk)


async def test_a_scoped_key_opens_its_bank_alone_until_it_is_revoked(live: Live) -> None:
    made = await asyncio.to_thread(live.answer, "keys", "create", "--bank", "narrow", "--read-only")
    async with live.client(made["key"], bank="narrow") as client:
        await client.recall("q")
        with pytest.raises(PermissionDeniedError):
            await client.recall("q", bank="default")
        with pytest.raises(PermissionDeniedError):
            await client.add_turn("s", said("x"))
        listed = (await asyncio.to_thread(live.answer, "keys", "list"))["keys"]
        key_id = next(one["key_id"] for one in listed if one["banks"] == ["narrow"])
        assert (await asyncio.to_thread(live.run, "keys", "revoke", key_id)).exit_code == 0

        async def refused() -> bool:
            with suppress(UnauthenticatedError):
                await client.recall("q")
                return False
            return True

        await until(refused, "a revoked key opens nothing")


def settled(live: Live) -> dict[str, Any]:
    """Wait until nothing is pending or running, and return the status."""
    wait_for(live.stack, UNDONE, lambda undone: undone == 0, "nothing is undone", 3 * PATIENCE_S)
    return live.answer("status")


def test_a_conversation_goes_in_once_passes_every_stage_and_comes_back(live: Live) -> None:
    before = settled(live)["turns"]
    file = str(FOLDER / "conversation.jsonl")
    first = live.answer("ingest", file)
    again = live.answer("ingest", file)
    assert (first["accepted"], first["bad_lines"], first["conflicts"]) == (first["read"], [], 0)
    assert (again["accepted"], again["duplicates"]) == (0, first["read"])
    status = settled(live)
    assert (status["turns"] - before, status["dead"]) == (first["read"], 0)
    answer = live.answer("recall", "What is the cat called?", "--bank", "demo", "-k", "5")
    assert any("Biscuit" in one["text"] for one in answer["results"])


def test_the_api_killed_in_the_middle_of_an_ingest_loses_and_doubles_nothing(live: Live) -> None:
    """The second half is handed to the command when the API was killed, so that it cannot be through before."""
    before = settled(live)["turns"]
    turns = (
        {"bank": "killed", "session_id": f"s{n % 7}", "turn_id": str(n), "messages": [{"role": "user", "content": "x"}]}
        for n in range(3000)
    )
    written = [json.dumps(turn).encode() + b"\n" for turn in turns]
    command = [*COMMAND, "ingest", "-", "--format", "jsonl", "--json", "--data", str(live.data)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with spawned(command, **pipes) as process:
        assert process.stdin is not None
        process.stdin.write(b"".join(written[:1500]))
        process.stdin.flush()
        wait_for(live.stack, TURNS, lambda turns: turns >= before + 200, "the first turns are in")
        live.kill("api")
        out, err = process.communicate(b"".join(written[1500:]), timeout=2 * PATIENCE_S)
    counted = json.loads(out)
    assert process.returncode == 0, err
    assert counted["accepted"] + counted["duplicates"] == counted["read"] == 3000
    assert live.answer("status")["turns"] == before + 3000


def test_the_doctor_finds_the_running_stack_healthy(live: Live) -> None:
    found = live.answer("doctor")
    assert found["healthy"], found
    assert {one["subject"] for one in found["findings"]} >= {"stack", "API", "PostgreSQL version", "Redis"}


def test_the_quickstart_of_the_readme_runs_as_it_is_pasted(live: Live) -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    snippet, *_ = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert "http://127.0.0.1:8300" in snippet
    assert live.data.name == "data"
    pasted = snippet.replace("http://127.0.0.1:8300", live.stack.api)
    done = subprocess.run(
        [sys.executable, "-c", pasted],
        cwd=live.data.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "I moved to Ghent" in done.stdout
    assert "<memory_reference>" in done.stdout


def test_the_status_says_what_memory_the_processes_take(live: Live) -> None:
    assert 100 < live.answer("status")["memory_pss_mb"] < 4000


async def test_a_history_of_items_is_kept_whole_and_given_back_before_the_next_turn(client: AsyncAfterturn) -> None:
    asked = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where is the almanac?"}]}]
    told = [
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "on the upper shelf"},
    ]
    kept = await client.after_turn("items", "1", asked, told)
    assert (await client.after_turn("items", "1", asked, told)).position == kept.position
    next_asked = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And the atlas?"}]}]
    prepared = await client.before_turn("items", "2", next_asked)
    assert list(prepared.input_items)[-4:] == [*asked, *told, *next_asked]
    with pytest.raises(TurnConflictError):
        await client.after_turn("items", "1", next_asked)


async def test_a_link_of_the_console_signs_in_once_with_the_keys_of_the_stack(live: Live) -> None:
    printed = re.findall(r"Console \(this link signs in once\): (\S+)", live.printed)
    for link in (*printed, (await asyncio.to_thread(live.answer, "console"))["url"]):
        page, _, code = link.partition("#link=")
        async with httpx.AsyncClient(base_url=live.stack.api) as browser:
            shown = await browser.get(page)
            assert "default-src 'none'" in shown.headers["content-security-policy"]
            reply = await browser.post("/api/v1/console/session", json={"link": code})
            assert (reply.status_code, reply.json()["tenant"], reply.json()["operator"]) == (201, "default", True)
            browser.headers["x-console-session"] = reply.json()["session"]
            assert (await browser.get("/api/v1/banks")).status_code == 200
            assert (await browser.get("/api/v1/operator/status")).status_code == 200
            assert (await browser.post("/api/v1/console/session", json={"link": code})).status_code == 401
    assert len(printed) == 1
