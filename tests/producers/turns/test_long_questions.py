"""A long text with a question at its end or its beginning: a turn is prepared with what answers the question."""

import pytest

from tests.producers.conftest import Tenant

QUESTION = "Where is the spare key for the boathouse?"


@pytest.mark.parametrize("lines", [200, 520])
@pytest.mark.parametrize("at_end", [True, False], ids=["question last", "question first"])
async def test_a_question_beside_a_pasted_log_is_asked(ana: Tenant, lines: int, at_end: bool) -> None:  # noqa: FBT001
    notes = [f"Note {n}: worker {n} did step {n * 7} at 10:00:{n:02d} and logged INFO" for n in range(60)]
    said = ["The spare key for the boathouse hangs behind the green barrel.", *notes]
    turns = [
        {"session_id": "old", "turn_id": str(n), "messages": [{"role": "user", "content": text}]}
        for n, text in enumerate(said)
    ]
    assert (await ana.http.post("/api/v1/turns:batch", json={"turns": turns})).is_success
    log = "\n".join(f"10:00:{n % 60:02d} INFO worker {n} did step {n * 7}" for n in range(lines))
    text = f"{log}\n{QUESTION}" if at_end else f"{QUESTION}\n{log}"
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    asked = {"session_id": "new", "turn_id": "1", "current_input": [item]}
    prepared = (await ana.http.post("/api/v1/turns/before", json=asked)).json()
    assert "green barrel" in str(prepared["input_items"][:-1])
