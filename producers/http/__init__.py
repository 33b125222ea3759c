"""The HTTP API over the facade, with one place for errors. Public name: `create_app` (app)."""
