"""The facade of every interface: authorisation, validation and wire shapes."""
