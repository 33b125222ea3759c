"""The shapes that cross a process border, each written once: what the store returns, the API answers, a client reads.

A shape is a frozen dataclass of the standard library with the names of the wire. A docstring below each field says its
meaning, unit and limits; pydantic reads it for the description of the API, orjson writes the object as it is, and
`afterturn_client.reading.read_shape` reads it from an answer. Nothing of ours is imported here.
"""
