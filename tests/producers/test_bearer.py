"""The key of a request stands in one header, in one form."""

from starlette.datastructures import Headers

from producers.bearer import read_bearer
from tests.tables import each_row


@each_row(
    "said, token",
    [("Bearer k", "k"), ("bearer  k ", "k"), ("Bearer", ""), ("Bearer ", ""), ("Basic k", ""), ("k", ""), (None, "")],
)
def test_the_key_is_what_follows_the_scheme(said: str | None, token: str) -> None:
    assert read_bearer(Headers({} if said is None else {"Authorization": said})) == token


def test_of_two_headers_none_counts() -> None:
    assert read_bearer(Headers(raw=[(b"authorization", b"Bearer k"), (b"authorization", b"Bearer other")])) == ""
