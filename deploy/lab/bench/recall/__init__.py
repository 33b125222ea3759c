"""How fast recall is: beside the bare calls it is made of, over HTTP, and as memory grows.

Public names: `run`, `Sizes`, `FULL`, `servers` (speed), what `afterturn bench recall` runs.
"""
