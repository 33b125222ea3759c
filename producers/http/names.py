"""Names within paths: every name that an interface accepts can be addressed by a path.

Some clients and proxies rewrite a path before they send it, `..` and `a//b` above all. What is asked for by a name in
the path can therefore be asked for by one in the query, too.
"""

from starlette.convertors import PathConvertor, register_url_convertor


class NameConvertor(PathConvertor):
    """A name of a bank or a turn, which may hold slashes and line breaks; the usual convertor stops at the latter."""

    regex = "(?s:.*)"


def register_name_converter() -> None:
    """Let routes say `{bank:name}`; again changes nothing."""
    register_url_convertor("name", NameConvertor())
