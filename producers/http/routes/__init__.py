"""The routes of the HTTP API: one module for each tag of its description, and of that name.

A route is declared on its handler by `router.operation`. The handler's name is the `operationId`, by which
generated clients name their call: verb and object, unique over all modules, and it stays. A name in a path
(`{bank:name}`) may be any that an interface accepts; some clients and proxies rewrite a path before they send it, `..`
and `a//b` above all, so what is asked for by a name in the path can be asked for by one in the query, too.
"""

from starlette.convertors import PathConvertor, register_url_convertor


class NameConvertor(PathConvertor):
    """A name of a bank or a turn, which may hold slashes and line breaks; the usual convertor stops at the latter."""

    regex = "(?s:.*)"


# Here, since a module of this package reads its paths as soon as it is imported.
register_url_convertor("name", NameConvertor())
