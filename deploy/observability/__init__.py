"""Logs, metrics, traces and the state of health of API and workers."""
