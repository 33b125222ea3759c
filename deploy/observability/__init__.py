"""Logs, metrics, traces and health rules of API and workers."""
