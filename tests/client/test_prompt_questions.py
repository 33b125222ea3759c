"""What a prompt asks of memory."""

from afterturn_client.prompt_questions import LONGEST_QUESTION, find_question
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row


@each_row(
    "prompt",
    [
        "", "  \n", "yes", "Yes!", "ok", "OK, go on.", "okay", "y", "1", "2.", "👍", "?", "...", "thanks", "Thank you!",
        "continue", "go ahead", "do it", "LGTM", "looks good", "sounds good", "no", "nope", "stop", "sure, please do",
        "ja", "weiter", "oui", "sí", "да", "はい", "继续", "/clear", "/compact", "/model opus", "/mcp__a__b",
        "/help me", "!ls -la", "!git commit -m 'a long message here'", "yes please", "that's right", "hi", "hello",
        "I agree", "perfect, thanks a lot", "thanks!", "Thanks so much!!", "thank you very much for your help 🙏",
        "Great, that worked!", "it works, thanks", "cheers mate", "much appreciated",
        "that did the trick", "vielen Dank!", "merci beaucoup", "muchas gracias", "grazie mille", "haha nice", "👍🎉",
        ":)",
    ],
)  # fmt: skip
def test_what_is_no_question_asks_nothing(prompt: str) -> None:
    assert find_question(prompt) is None


@each_row(
    "prompt, question",
    [
        ("Where do we deploy to?", "Where do we deploy to?"),
        ("port?", "port?"),
        ("8443", None),
        ("continue with the winch", "continue with the winch"),
        ("/etc/hosts has a wrong line", "/etc/hosts has a wrong line"),
        ("/review the winch of pier 4", "the winch of pier 4"),
        ("yes, and use the 12 mm bolt", "yes, and use the 12 mm bolt"),
        (" what is it? ", "what is it?"),
        ("船はどこ", "船はどこ"),
    ],
)
def test_a_question_is_asked_as_it_is(prompt: str, question: str | None) -> None:
    assert find_question(prompt) == question


def test_of_a_long_prompt_the_end_and_the_beginning_are_asked() -> None:
    log = "\n".join(f"10:00:{n % 60:02d} INFO worker {n} did step {n * 7}" for n in range(5_000))
    for prompt in (f"{log}\nWhere is the key?", f"Where is the key?\n{log}"):
        question = find_question(prompt)
        assert question is not None
        assert "Where is the key?" in question
        assert len(question) < LONGEST_QUESTION
        assert "INFO" not in question
    question = find_question(f"Fix the winch\n{log}\nGET /a?b=c\nand tell Ann of it")
    assert question is not None
    assert question.index("and tell Ann of it") < question.index("Fix the winch")
    question = find_question("é" * 20_000)
    assert question is not None
    assert len(question.encode()) < 16_384


@given(st.text())
def test_any_text_is_a_question_or_none(prompt: str) -> None:
    assert find_question(prompt) != ""
