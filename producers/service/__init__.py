"""The facade: what every interface asks of the memory, with authorisation, validation and wire shapes."""
