"""The HTTP API over the facade; all errors are translated in one module. Public name: `create_app` (app)."""
