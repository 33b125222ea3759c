"""Snapshots: a tenant's log as CloudEvents, written out, and taken in by another deployment.

`policy` says of every table whether a snapshot holds it. `exporting` reads pages of the log, `masking` replaces what
is private, `importing` checks and appends events, and makes what derived state lacks. `rows` keeps what was done.
"""
