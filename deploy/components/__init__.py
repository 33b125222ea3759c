"""What processes and commands build from the settings: the facade, gateways, models, and checks before they begin."""
