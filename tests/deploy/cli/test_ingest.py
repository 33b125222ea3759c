"""`afterturn ingest` against a stand-in API: what it sends, counts, repeats, and says."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from typer.testing import CliRunner, Result

from deploy.cli.app import build_cli
from tests.client.loopback import Loopback, Seen, loopback
from tests.deploy.native_double import NativeDouble, refusal, stand_in
from tests.patience import PATIENCE_S, wait_until

COMMAND = [sys.executable, "-c", "from deploy.cli import main; main()"]


class Stacked:
    """A folder with a running stand-in, and a way to ingest into it."""

    def __init__(self, folder: Path, server: Loopback, double: NativeDouble) -> None:
        self.folder, self.server, self.double = folder, server, double
        self.running: subprocess.Popen[bytes] | None = None

    def write(self, name: str, data: str | bytes) -> Path:
        file = self.folder / name
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return file

    def ingest(self, file: Path, *options: str) -> Result:
        arguments = ["ingest", str(file), "--data", str(self.folder), *options]
        return CliRunner().invoke(build_cli("ingest"), arguments)

    def counted(self, file: Path, *options: str) -> tuple[dict[str, Any], int]:
        result = self.ingest(file, "--json", *options)
        return json.loads(result.stdout.splitlines()[-1]), result.exit_code

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
        command = [*COMMAND, "ingest", *arguments, "--data", str(self.folder), "--json"]
        self.running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        return self.running

    def wait_for(self, turns: int) -> None:
        """Return when so many turns have arrived."""
        wait_until(lambda: len(self.double.turns) >= turns, f"{turns} turns arrived")

    def end(self) -> None:
        """End the child of a test that failed before it could."""
        if self.running is not None and self.running.poll() is None:
            self.running.kill()
            self.running.communicate()


@pytest.fixture
def stacked(server: Loopback, tmp_path: Path) -> Iterator[Stacked]:
    double = NativeDouble()
    server.reset()
    lock = stand_in(tmp_path / "data", server, double)
    stacked = Stacked(tmp_path / "data", server, double)
    yield stacked
    stacked.end()
    lock.release()


def lines(count: int, session: str = "s") -> str:
    turns = (
        {"session_id": session, "turn_id": str(n), "messages": [{"role": "user", "content": f"text {n}"}]}
        for n in range(count)
    )
    return "".join(json.dumps(turn) + "\n" for turn in turns)


def test_every_turn_goes_in_once_in_order_and_the_counts_say_so(stacked: Stacked) -> None:
    file = stacked.write("turns.jsonl", lines(250))
    first, status = stacked.counted(file)
    seconds = first.pop("seconds")
    assert first == {
        "read": 250,
        "accepted": 250,
        "duplicates": 0,
        "conflicts": 0,
        "erased": 0,
        "bad_lines": [],
        "position": 250,
    }
    assert seconds > 0
    assert status == 0
    assert stacked.double.texts() == [f"text {n}" for n in range(250)]
    assert stacked.double.batches == [100, 100, 50]


def test_ingesting_again_changes_nothing(stacked: Stacked) -> None:
    for name, data in (("a.txt", "Ana: one\nBen: two\nAna: one\n"), ("b.json", '[{"role": "user", "content": "x"}]')):
        file = stacked.write(name, data)
        assert stacked.counted(file)[0]["accepted"] > 0
        before = dict(stacked.double.turns)
        again, status = stacked.counted(file)
        assert (again["accepted"], again["conflicts"], status) == (0, 0, 0)
        assert again["duplicates"] == again["read"]
        assert stacked.double.turns == before


def test_a_text_is_taken_in_whole_once_when_it_is_said_to_be_a_document(stacked: Stacked) -> None:
    text = "# Journey\n\nAna: not a transcript.\n"
    file = stacked.write("journey.md", b"\xef\xbb\xbf" + text.encode())
    first, status = stacked.counted(file, "--format", "document", "--bank", "work")
    assert (first["read"], first["accepted"], first["bad_lines"]) == (1, 1, [])
    assert (first["doc_id"], first["units"]) == (str(UUID(int=0)), 1)
    [sent] = [seen.json for seen in stacked.server.seen]
    assert (sent, status) == ({"bank": "work", "content": text, "title": "journey.md"}, 0)
    again, status = stacked.counted(file, "--format", "document", "--bank", "work")
    assert (again["accepted"], again["duplicates"], status) == (0, 1, 0)
    assert stacked.double.turns == {}


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b" \n", b"x" * (2_097_152 + 1)], ids=["binary", "blank", "long"])
def test_what_is_no_text_or_too_long_is_no_document(stacked: Stacked, data: bytes) -> None:
    told, status = stacked.counted(stacked.write("a.txt", data), "--format", "document")
    assert (told["read"], told["accepted"], len(told["bad_lines"]), status) == (1, 0, 1, 1)
    assert stacked.server.seen == []


def test_a_document_is_sent_until_the_service_answers(stacked: Stacked) -> None:
    answers = iter([JSONResponse(refusal("UNAVAILABLE", "not yet", retryable=True), 503)])
    stacked.double.before = lambda _: next(answers, None)
    told, status = stacked.counted(stacked.write("a.txt", "plain words"), "--format", "document")
    assert (told["accepted"], status) == (1, 0)
    stacked.double.before = lambda _: JSONResponse(refusal("UNAVAILABLE", "never", retryable=True), 503)
    result = stacked.ingest(stacked.write("b.txt", "more words"), "--format", "document", "--patience", "0.1")
    assert result.exit_code == 1
    assert "gave up" in result.stderr


def test_a_file_is_a_document_that_its_turns_name_once_in_every_bank_it_goes_to(stacked: Stacked) -> None:
    first, second = (json.loads(line) for line in lines(2).splitlines())
    data = "".join(json.dumps(turn) + "\n" for turn in (first, second | {"bank": "other"}, first | {"turn_id": "9"}))
    file = stacked.write("talk.jsonl", data)
    assert stacked.counted(file)[0]["accepted"] == 3
    digest = hashlib.sha256(data.encode()).hexdigest()
    assert stacked.double.documents == {("default", digest): str(UUID(int=0)), ("other", digest): str(UUID(int=1))}
    named = [turn["doc_id"] for seen in stacked.server.seen for turn in seen.json.get("turns", [])]
    assert named == [str(UUID(int=0)), str(UUID(int=1)), str(UUID(int=0))]


def test_sessions_and_banks_of_a_transcript_are_the_files_name_and_the_option(stacked: Stacked) -> None:
    stacked.ingest(stacked.write("talk.txt", "Ana: one\n"), "--bank", "work")
    stacked.ingest(stacked.write("talk.txt", "Ana: one\n"), "--session", "other")
    assert [name[:2] for name in stacked.double.turns] == [("work", "talk.txt"), ("default", "other")]


def test_bad_lines_are_told_by_number_and_the_rest_goes_in(stacked: Stacked) -> None:
    good = lines(3).splitlines()
    data = "\n".join([good[0], "{broken", good[1], "\x00", good[2]])
    result = stacked.ingest(stacked.write("a.jsonl", data), "--json")
    counted = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (counted["read"], counted["accepted"]) == (5, 3)
    assert [bad["line"] for bad in counted["bad_lines"]] == [2, 4]
    assert "line 2: not JSON" in result.stderr
    assert "line 4: holds a NUL" in result.stderr


def test_a_turn_the_service_refuses_is_found_among_its_neighbours(stacked: Stacked) -> None:
    data = lines(40).splitlines()
    data[17] = data[17].replace("text 17", "unacceptable")
    counted, status = stacked.counted(stacked.write("a.jsonl", "\n".join(data)))
    assert (counted["accepted"], status) == (39, 1)
    assert counted["bad_lines"] == [{"line": 18, "error": "422 INVALID_ARGUMENT: content is not acceptable"}]
    assert stacked.double.texts() == [f"text {n}" for n in range(40) if n != 17]


def test_a_turn_known_with_another_body_is_a_conflict(stacked: Stacked) -> None:
    stacked.counted(stacked.write("a.jsonl", lines(2)))
    changed = lines(2).replace("text 1", "text one")
    result = stacked.ingest(stacked.write("a.jsonl", changed), "--json")
    counted = json.loads(result.stdout)
    assert (counted["duplicates"], counted["conflicts"], result.exit_code) == (1, 1, 1)
    assert "line 2" in result.stderr


def test_large_turns_go_in_requests_the_service_takes(stacked: Stacked) -> None:
    turns = [
        {"session_id": "s", "turn_id": str(n), "messages": [{"role": "user", "content": "é" * 200_000}]}
        for n in range(8)
    ]
    counted, _status = stacked.counted(
        stacked.write("a.jsonl", "\n".join(json.dumps(turn, ensure_ascii=False) for turn in turns))
    )
    assert counted["accepted"] == 8
    assert max(len(seen.body) for seen in stacked.server.seen) < 1_100_000


@pytest.mark.parametrize(
    "failure",
    [
        JSONResponse(refusal("UNAVAILABLE", "", retryable=True), 503, headers={"retry-after": "0"}),
        JSONResponse(refusal("RATE_LIMITED", "", retryable=True), 429),
        PlainTextResponse("bad gateway", 502),
        PlainTextResponse("oops", 500),
        PlainTextResponse("<html>", 200),
    ],
)
def test_a_service_that_stumbles_is_asked_again(stacked: Stacked, failure: Response) -> None:
    failures = [failure, failure]
    stacked.double.before = lambda _seen: failures.pop() if failures else None
    counted, status = stacked.counted(stacked.write("a.jsonl", lines(3)))
    assert (counted["accepted"], status) == (3, 0)


def test_busy_turns_are_sent_again_alone(stacked: Stacked) -> None:
    busy = [True]

    def before(seen: Seen) -> Response | None:
        if not busy or seen.path == "/api/v1/docs":
            return None
        busy.clear()
        results = json.loads(bytes(stacked.double.take(seen.json).body))["results"]
        results[1] = {"ok": False, **refusal("RESOURCE_BUSY", "", retryable=True)}
        return JSONResponse({"results": results})

    stacked.double.before = before
    counted, status = stacked.counted(stacked.write("a.jsonl", lines(3)))
    assert (counted["accepted"] + counted["duplicates"], counted["read"], status) == (3, 3, 0)
    assert [len(seen.json["turns"]) for seen in stacked.server.seen if "turns" in seen.json] == [3, 1]


def test_patience_ends_and_says_how_far_it_got(stacked: Stacked) -> None:
    answered: list[int] = []

    def before(_seen: Seen) -> Response | None:
        answered.append(1)
        return PlainTextResponse("away", 503) if len(answered) > 2 else None  # the document, and one batch

    stacked.double.before = before
    result = stacked.ingest(stacked.write("a.jsonl", lines(150)), "--json", "--patience", "0.5")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["accepted"] == 100
    assert "after line 100" in result.stderr
    assert "Run the same command again" in result.stderr


def test_a_wrong_key_is_wrong_usage(stacked: Stacked) -> None:
    (stacked.folder / "api-key").write_text("at_other")
    result = stacked.ingest(stacked.write("a.jsonl", lines(1)))
    assert result.exit_code == 2
    assert "api-key" in result.stderr
    assert "at_other" not in result.stderr


def test_no_stack_no_file_and_no_format_are_wrong_usage(stacked: Stacked, tmp_path: Path) -> None:
    file = stacked.write("words.txt", "just words\n")
    nowhere = CliRunner().invoke(build_cli("ingest"), ["ingest", str(file), "--data", str(tmp_path / "none")])
    assert (nowhere.exit_code, "afterturn up" in nowhere.stderr) == (2, True)
    missing = stacked.ingest(tmp_path / "missing.txt")
    assert (missing.exit_code, "No such file" in missing.stderr) == (2, True)
    assert stacked.ingest(tmp_path).exit_code == 2
    unclear = stacked.ingest(file)
    assert (unclear.exit_code, "--format" in unclear.stderr) == (2, True)
    assert stacked.ingest(stacked.write("empty.jsonl", "")).exit_code == 0


def test_for_people_the_answer_is_a_sentence(stacked: Stacked) -> None:
    result = stacked.ingest(stacked.write("a.jsonl", lines(2)))
    assert result.stdout.startswith(
        "2 read: 2 new, 0 known already, 0 in conflict, 0 erased before, 0 bad; position 2;"
    )


@pytest.mark.live
def test_a_service_killed_and_restarted_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    """The first server dies while it answers; one on the same port takes over."""
    double = NativeDouble()

    def dying(seen: Seen) -> Response | None:
        if 300 <= len(double.turns) < 400:
            double.take(seen.json)  # and the answer is lost
        return PlainTextResponse("dying", 503) if len(double.turns) >= 400 else None

    with loopback() as first:
        port = int(first.url.rpartition(":")[2])
        lock = stand_in(tmp_path / "data", first, double)
        stacked = Stacked(tmp_path / "data", first, double)
        double.before = dying
        process = stacked.start(str(stacked.write("a.jsonl", lines(2000))))
        stacked.wait_for(400)
    double.before = lambda _seen: None
    with loopback(port) as second:
        second.answer = double.answer
        out, err = process.communicate(timeout=PATIENCE_S)
    stacked.end()
    lock.release()
    counted = json.loads(out)
    assert process.returncode == 0, err
    assert (counted["accepted"], counted["duplicates"]) == (1900, 100)
    assert double.texts() == [f"text {n}" for n in range(2000)]


@pytest.mark.live
def test_ctrl_c_says_how_far_it_got_and_a_second_run_goes_on(stacked: Stacked) -> None:
    interrupted, slow = threading.Event(), threading.Event()

    def before(_seen: Seen) -> Response | None:
        if len(stacked.double.turns) >= 300:
            interrupted.wait(PATIENCE_S)
            slow.wait(0.3)
        return None

    stacked.double.before = before
    file = stacked.write("a.jsonl", lines(2000))
    process = stacked.start(str(file))
    stacked.wait_for(300)
    process.send_signal(signal.SIGINT)
    interrupted.set()
    out, err = process.communicate(timeout=PATIENCE_S)
    slow.set()
    counted = json.loads(out)
    assert process.returncode == 130
    assert 0 < counted["accepted"] < 2000
    assert f"interrupted after line {counted['accepted']}" in err.decode()
    assert b"Traceback" not in err
    again, status = stacked.counted(file)
    assert (again["accepted"] + again["duplicates"], status) == (2000, 0)
    assert stacked.double.texts() == [f"text {n}" for n in range(2000)]


def test_standard_input_is_read_as_it_comes(stacked: Stacked) -> None:
    process = stacked.start("-", stdin=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    out, err = process.communicate(b"Ana: one\nBen: two\n", timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert json.loads(out)["accepted"] == 2
    assert {session for _bank, session, _turn in stacked.double.turns} == {"stdin"}


def test_only_the_answer_is_on_standard_output(stacked: Stacked) -> None:
    result = stacked.ingest(stacked.write("a.jsonl", lines(1) + "{broken\n"), "--json")
    assert len(result.stdout.splitlines()) == 1
    assert result.stdout.isascii()


def test_a_chat_that_went_on_stores_what_is_new_alone(stacked: Stacked) -> None:
    said = [{"role": role, "content": text} for role, text in (("user", "one"), ("assistant", "1"), ("user", "two"))]
    stacked.counted(stacked.write("chat.json", json.dumps(said)))
    for answers in (["2"], ["2", "and more"], ["2", "and more", "and more"]):
        grown = [*said, *({"role": "assistant", "content": text} for text in answers)]
        counts, status = stacked.counted(stacked.write("chat.json", json.dumps(grown)))
        assert (counts["accepted"], counts["conflicts"], status) == (1, 0, 0)
        again, status = stacked.counted(stacked.write("chat.json", json.dumps(grown)))
        assert (again["accepted"], again["duplicates"], again["conflicts"], status) == (0, 2, 0, 0)
    stored = [m["content"] for _at, body in stacked.double.turns.values() for m in json.loads(body)["messages"]]
    assert stored == ["one", "1", "two", "2", "and more", "and more"]


def test_a_coding_agents_turn_that_went_on_stores_what_is_new_alone(stacked: Stacked) -> None:
    def said(kind: str, uid: str, text: str, minute: int) -> dict[str, Any]:
        message = {"role": kind, "content": [{"type": "text", "text": text}]}
        at = f"2026-03-02T09:{minute}:00Z"
        return {"type": kind, "uuid": uid, "parentUuid": None, "timestamp": at, "message": message}

    session = [said("user", "p", "Fix the mill", 30), said("assistant", "a1", "First attempt done.", 31)]
    for more in ([], [said("assistant", "a2", "The gear has 17 teeth.", 32)], [said("assistant", "a3", "Oiled.", 33)]):
        session += more
        file = stacked.write("session.jsonl", "".join(f"{json.dumps(line)}\n" for line in session))
        counts, status = stacked.counted(file)
        assert (counts["accepted"], counts["conflicts"], status) == (1, 0, 0)
        again, status = stacked.counted(file)
        assert (again["accepted"], again["duplicates"], again["conflicts"], status) == (0, 1, 0, 0)
    stored = [m["content"] for _at, body in stacked.double.turns.values() for m in json.loads(body)["messages"]]
    assert stored == ["Fix the mill", "First attempt done.", "The gear has 17 teeth.", "Oiled."]


def test_a_chat_whose_answer_was_changed_is_in_conflict(stacked: Stacked) -> None:
    for answer, expected in (("1", (1, 0)), ("changed", (0, 1))):
        said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": answer}]
        counts, _status = stacked.counted(stacked.write("chat.json", json.dumps(said)))
        assert (counts["accepted"], counts["conflicts"]) == expected


def chat_of(*pairs: tuple[str, str]) -> str:
    return json.dumps(
        [
            {"role": role, "content": text}
            for pair in pairs
            for role, text in zip(("user", "assistant"), pair, strict=True)
        ]
    )


@pytest.mark.parametrize("earlier", [1, 2, 3])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_the_same_question_anywhere_in_a_later_export_is_the_only_new_turn(
    stacked: Stacked, earlier: int, place: int
) -> None:
    """Whose answer differs; messages have no ids and no times."""
    before = [("hi", f"answer {nth}") for nth in range(earlier)] + [("bye", "see you")]
    counts, _ = stacked.counted(stacked.write("chat.json", chat_of(*before)))
    assert (counts["accepted"], counts["conflicts"]) == (earlier + 1, 0)
    after = [*before]
    after.insert(len(before) if place < 0 else place, ("hi", "another answer"))
    for accepted in (1, 0):
        counts, status = stacked.counted(stacked.write("chat.json", chat_of(*after)))
        assert (counts["accepted"], counts["duplicates"], status) == (accepted, len(after) - accepted, 0)
    stored = [json.loads(body)["messages"][1]["content"] for _at, body in stacked.double.turns.values()]
    assert sorted(stored) == sorted(answer for _, answer in after)


def test_turns_that_say_the_same_are_each_stored_in_their_place(stacked: Stacked) -> None:
    said = [("hi", "hello"), ("one", "1"), ("hi", "hello"), ("two", "2"), ("hi", "again"), ("three", "3")]
    for accepted in (len(said), 0):
        counts, status = stacked.counted(stacked.write("chat.json", chat_of(*said)))
        assert (counts["accepted"], counts["conflicts"], status) == (accepted, 0, 0)
    stored = [tuple(m["content"] for m in json.loads(body)["messages"]) for _at, body in stacked.double.turns.values()]
    assert stored == said


def test_a_file_of_whatsapp_with_two_readings_is_refused_until_its_dates_are_told(stacked: Stacked) -> None:
    file = stacked.write("chat.txt", "01/02/2026, 20:16 - Kim: hello\n03/02/2026, 20:16 - Bo: good morning\n")
    refused = stacked.ingest(file)
    assert refused.exit_code == 2
    assert "--dates month-first" in refused.stderr
    assert not stacked.double.turns
    assert stacked.ingest(file, "--dates", "month-first").exit_code == 0
    assert len(stacked.double.turns) == 2


def test_times_of_a_file_that_tells_no_zone_are_of_the_one_that_is_given(stacked: Stacked) -> None:
    file = stacked.write("chat.txt", "13/02/2026, 20:16 - Kim: hello\n13/07/2026, 20:16 - Bo: good morning\n")
    assert stacked.ingest(file, "--zone", "Europe/Berlin").exit_code == 0
    told = {json.loads(body)["messages"][0]["timestamp"] for _at, body in stacked.double.turns.values()}
    assert told == {"2026-02-13T19:16:00Z", "2026-07-13T18:16:00Z"}
    refused = stacked.ingest(file, "--zone", "Berlin")
    assert (refused.exit_code, "Europe/Berlin" in refused.stderr) == (2, True)


def test_a_file_in_utf_16_is_taken_in_and_an_archive_is_refused_by_its_name(stacked: Stacked) -> None:
    counts, status = stacked.counted(stacked.write("turns.jsonl", lines(3).encode("utf-16")))
    assert (counts["accepted"], counts["bad_lines"], status) == (3, [], 0)
    refused = stacked.ingest(stacked.write("export.zip", b"PK\x03\x04" + bytes(30)))
    assert refused.exit_code == 2
    assert "unpack it" in refused.stderr


def test_an_answer_of_aider_that_went_on_stores_what_is_new_alone(stacked: Stacked) -> None:
    asked = "# aider chat started at 2026-05-24 10:00:00\n\n#### Where is the canoe?  \n"
    file = stacked.write("history.md", f"{asked}\nIn the barn.\n\n> Tokens: 1k sent  \n")
    assert stacked.ingest(file).exit_code == 0
    stacked.write("history.md", f"{asked}\nIn the barn.\n\n> Tokens: 1k sent  \n\nIt leaks.\n\n\n#### thanks  \n")
    counts, status = stacked.counted(file)
    assert (counts["accepted"], counts["duplicates"], counts["conflicts"], status) == (2, 0, 0, 0)
    stored = [m["content"] for _at, body in stacked.double.turns.values() for m in json.loads(body)["messages"]]
    assert sorted(stored) == sorted(["Where is the canoe?", "In the barn.", "It leaks.", "thanks"])


def test_a_meeting_has_times_from_where_it_began_and_a_longer_one_stores_what_is_new(stacked: Stacked) -> None:
    talk = "WEBVTT\n\n1\n00:00:05.000 --> 00:00:06.000\nKim: hello.\n\n2\n00:00:07.000 --> 00:00:08.000\nBo: hi.\n\n"
    file = stacked.write("talk.vtt", talk)
    unreadable = stacked.ingest(file, "--began", "soon")
    assert (unreadable.exit_code, stacked.double.turns) == (2, {})
    assert "--began" in unreadable.stderr
    began = ("--began", "2026-05-24T10:00:00+02:00")
    assert stacked.ingest(file, *began).exit_code == 0
    stacked.write("talk.vtt", talk + "3\n00:01:00.000 --> 00:01:01.000\nKim: bye.\n")
    counts, status = stacked.counted(file, *began)
    assert (counts["accepted"], counts["duplicates"], counts["conflicts"], status) == (1, 2, 0, 0)
    told = [m for _at, body in stacked.double.turns.values() for m in json.loads(body)["messages"]]
    assert [(m["name"], m["timestamp"][:19]) for m in told] == [
        ("Kim", "2026-05-24T08:00:05"),
        ("Bo", "2026-05-24T08:00:07"),
        ("Kim", "2026-05-24T08:01:00"),
    ]


def test_a_file_that_was_erased_is_said_to_be_with_the_way_to_begin_anew(stacked: Stacked) -> None:
    erased = {"results": [{"ok": False, **refusal("TURN_ERASED", "this turn was erased")}] * 2}
    stacked.double.before = lambda seen: JSONResponse(erased) if seen.path == "/api/v1/turns:batch" else None
    result = stacked.ingest(stacked.write("talk.txt", "Ann: hi\nBo: hello\n"))
    assert result.exit_code == 1
    assert "0 in conflict, 2 erased before" in result.stdout
    assert result.stderr.count("was erased") == 1
    assert "--session NAME" in result.stderr


@pytest.mark.parametrize(
    "name,text",
    [
        ("app.yaml", "name: app\nversion: 2\n"),
        ("app.log", "INFO: started\nERROR: stopped\n"),
        ("chat.json", '{"messages": [{"creator": "Kim", "said": "hello"}]}'),
    ],
)
def test_a_file_in_no_known_form_is_refused_whole(stacked: Stacked, name: str, text: str) -> None:
    result = stacked.ingest(stacked.write(name, text))
    assert result.exit_code == 2
    assert "looked for" in result.stderr
    assert not stacked.double.turns
