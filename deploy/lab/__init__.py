"""Measurements and proofs that do not run in production: benchmarks, chaos, isolation and upgrade checks, the demo."""
