"""The HTTP API: contracts in, the facade behind, one place for errors. Public name: `create_app` (app)."""
