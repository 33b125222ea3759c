"""Deployment: settings, command line, API and worker processes, embedded servers."""
