"""Components that processes and commands build from the settings: the facade, gateways, models, checks at start."""
