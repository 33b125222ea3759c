"""The laboratory: benchmarks, chaos, the isolation check, the demo. None of it runs in production."""
