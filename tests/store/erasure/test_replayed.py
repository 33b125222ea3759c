"""L11: a replay under way, or one that was cut off, brings nothing back of what is erased meanwhile."""

from typing import Any

import pytest

from store.connections import create_owner_engine
from store.erasure import Kind
from store.errors import ReplayError
from store.replay import ReplayScope, digest, repair_scope, swap_tables, verify_log
from store.replay.shadow import Shadow
from tests.store.erasure.conftest import Scene
from tests.store.erasure.dump import dump, lines_with
from tests.workers.conftest import HOST, dialogue

pytestmark = pytest.mark.law("L11")

SECRET = "Qyburnfeld"


async def said(scene: Scene) -> None:
    await scene.world.append(messages=dialogue(f"My name is {SECRET}. I live in {SECRET}ville.", f"Hello {SECRET}."))
    await scene.world.append("other", messages=dialogue("My name is Karl.", "Hello Karl."))
    await scene.crew.drain()


@pytest.mark.parametrize("how", [swap_tables, repair_scope])
async def test_what_is_erased_while_a_replay_is_compared_is_not_put_in_place(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, how: Any
) -> None:
    await said(scene)
    compare, erasing = digest.compare_tables, [Kind.SESSION]

    async def erased_meanwhile(*arguments: Any) -> Any:
        found = await compare(*arguments)
        if erasing:
            await scene.erase(erasing.pop(), "s")
        return found

    monkeypatch.setattr(digest, "compare_tables", erased_meanwhile)
    scope = (ReplayScope(HOST),) if how is repair_scope else ()
    with pytest.raises(ReplayError):
        await how(scene.world.postgres.owner_url, *scope)
    assert lines_with(await dump(scene.world.postgres), SECRET) == []
    assert (await how(scene.world.postgres.owner_url, *scope)).equal
    assert lines_with(await dump(scene.world.postgres), SECRET) == []
    assert (await verify_log(scene.world.postgres.owner_url)).equal


async def test_a_replay_that_was_cut_off_is_not_taken_up_when_something_was_erased_since(scene: Scene) -> None:
    await said(scene)
    engine = create_owner_engine(scene.world.postgres.owner_url)
    shadow = Shadow(engine, ReplayScope(), "afterturn_replay")
    await shadow.prepare(resume=False)
    await shadow.catch_up()
    await engine.dispose()
    await scene.erase(Kind.SESSION, "s")
    assert (await verify_log(scene.world.postgres.owner_url, resume=True)).equal


async def test_a_comparison_begins_anew_when_something_is_erased_meanwhile(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await said(scene)
    catch_up, erasing = Shadow.catch_up, [Kind.SESSION]

    async def erased_meanwhile(*arguments: Any) -> int:
        done = await catch_up(*arguments)
        if erasing:
            await scene.erase(erasing.pop(), "s")
        return done

    monkeypatch.setattr(Shadow, "catch_up", erased_meanwhile)
    assert (await verify_log(scene.world.postgres.owner_url)).equal
    assert erasing == []
