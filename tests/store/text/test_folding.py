"""Names are folded here as in the database."""

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from store.text.normal_forms import fold_name
from tests.servers import TestPostgres

NAMES = ["Zoë", "O\u2019Brien", "O\u02bcBrien", " Ana\u00a0 Lima\t", "ŁUKASZ", "Straße", "ﬁne", "e\u0301", "李雷", ""]


async def test_python_folds_names_as_the_database_does(postgres: TestPostgres) -> None:
    engine = create_async_engine(postgres.owner_url)
    try:
        async with engine.connect() as connection:
            for name in NAMES:
                assert await _fold(connection, name) == fold_name(name), name
    finally:
        await engine.dispose()


async def _fold(connection: AsyncConnection, name: str) -> str:
    return str((await connection.execute(text("select afterturn.folded(:name)"), {"name": name})).scalar_one())


@given(st.text())
def test_a_folded_name_stays_as_it_is(name: str) -> None:
    assert fold_name(fold_name(name)) == fold_name(name)
