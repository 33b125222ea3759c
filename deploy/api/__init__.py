"""The API process: `python -P -m deploy.api`. Its server, what it is made of, its health, the plugin's listener."""
