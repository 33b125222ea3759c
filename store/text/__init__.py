"""Pure rules about texts, with no input or output: what is a secret in them, so far."""
