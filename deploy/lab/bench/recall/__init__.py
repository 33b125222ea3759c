"""`afterturn bench recall`: measures the speed of recall beside its floor, in process and over HTTP, by bank size.

Entry point: the module `speed`.
"""
