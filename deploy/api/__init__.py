"""The API process: `python -P -m deploy.api`. Its server, its components, its health, the plugin's listener."""
