"""The queue interface: turns and questions that agents publish. Hands out what reads and judges one message."""
