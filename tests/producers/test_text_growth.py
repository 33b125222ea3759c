"""Whatever text anybody hands in or is given: to judge, strip and frame it takes time in proportion to it."""

from collections.abc import Callable

import orjson

from producers.service.framing import frame_message, strip_frames
from producers.service.turns import read_content, read_turn
from producers.settings import ApiSettings
from tests.growth import outgrowing
from tests.tables import each_row

SETTINGS = ApiSettings(max_message_bytes=16_777_216)


def a_turn(text: str) -> None:
    parts = [{"type": "text", "text": text}, {"type": "tool", "input": {"a": [text, {text[:40]: text}]}}]
    messages = [{"role": "user", "name": text[:20] or "a", "content": one} for one in (text or "a", parts)]
    turn = {"session_id": "s", "turn_id": "t", "messages": messages, "metadata": {"k": text[:2000]}}
    read_turn(orjson.loads(orjson.dumps(turn)), SETTINGS)


READ: dict[str, Callable[[str], object]] = {
    "frames are stripped": strip_frames,
    "a frame is made": lambda text: frame_message(
        [{"text": text}], [{"name": "tone", "text": text, "laid_down_by": "ann"}]
    ),
    "a made frame is stripped": lambda text: strip_frames(
        (frame_message([{"text": text}]) or {"content": ""})["content"]
    ),
    "a frame of JSON is stripped": lambda text: strip_frames(
        (frame_message([{"text": text}], form="json") or {"content": ""})["content"]
    ),
    "a frame that was altered is stripped": lambda text: strip_frames(
        (frame_message([{"text": text}]) or {"content": ""})["content"].upper().replace("\n", "\n> ")
    ),
    "a frame that was cut is stripped": lambda text: strip_frames(
        (frame_message([{"text": text}] * 3) or {"content": ""})["content"][:-30]
    ),
    "content is read": read_content,
    "a turn is judged": a_turn,
}


@each_row("name", READ)
def test_the_time_grows_with_the_text(name: str) -> None:
    assert outgrowing(READ[name]) == []
