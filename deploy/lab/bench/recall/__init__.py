"""Speed of recall compared with its floor, over HTTP, by size of the bank.

Public names: `run`, `Sizes`, `FULL`, `servers` (speed), what `afterturn bench recall` runs.
"""
