"""The queue interface: turns and questions that agents publish; reads and validates one message at a time."""
